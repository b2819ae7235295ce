# Every target makes its own Python in .venv, with the versions of requirements/dev.lock.
# All it asks of the machine is make and python3 >= 3.11; another interpreter: make PYTHON=python3.12 demo
# An interpreter that has all packages, on a machine without network: PYTHONPATH=. make PY=python3 READY= bench-gpu

PYTHON ?= python3
WORKERS ?= auto
ARGS ?=

VENV := .venv
PY := $(VENV)/bin/python
LOCK := requirements/dev.lock
CPU := requirements/torch-cpu.lock
TORCH := requirements/torch.lock
READY := $(VENV)/.ready
# One thread of BLAS for each test process: the processes already fill the cores.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 VECLIB_MAXIMUM_THREADS=1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-gpu lint docs figures bench lock audit changelog clean distclean check-python FORCE

help: ## show this list
	@echo "make TARGET, where TARGET is one of"
	@sed -n 's/^\([a-zA-Z%-]*\):.*## \(.*\)/  \1	\2/p' Makefile | sed 's/%/NAME/' | expand -t 16

demo: $(READY) ## draw learned kernels, and every kernel beside its approximation: report/index.html
	$(PY) examples/demo.py $(ARGS)

test: $(READY) ## run the tests on all cores (ARGS="-k name" to choose)
	$(ONE_THREAD) $(PY) -m pytest -n $(WORKERS) $(ARGS)

test-gpu: $(READY) ## run the tests that need a GPU, and keep what they say: benchmarks/results/test-gpu.txt
	@mkdir -p benchmarks/results; status=0; \
	$(ONE_THREAD) $(PY) -m pytest -m gpu $$(grep -rl mark.gpu tests) $(ARGS) > benchmarks/results/test-gpu.txt 2>&1 || status=$$?; \
	sed -i '/^rootdir:/d' benchmarks/results/test-gpu.txt; cat benchmarks/results/test-gpu.txt; exit $$status

lint: $(READY) ## ruff, mypy, codespell
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(PY) -m codespell_lib
	$(PY) tools/changelog.py --check

docs: $(READY) ## build the documentation site, warnings are errors: build/docs/index.html
	$(ONE_THREAD) $(PY) -m sphinx -W --keep-going $(ARGS) docs build/docs
	@echo "The site is ready, open it in a browser: file://$(CURDIR)/build/docs/index.html"

figures: $(READY) ## draw the figures of the documentation again
	$(PY) docs/figures/make.py

bench: $(READY) ## list the benchmarks
	@$(PY) tools/list_benchmarks.py

bench-%: $(READY) ## run benchmarks/NAME.py
	@test -f benchmarks/$*.py || { echo "There is no benchmarks/$*.py. These exist:"; $(PY) tools/list_benchmarks.py; exit 2; } >&2
	$(PY) benchmarks/$*.py $(ARGS)

changelog: $(READY) ## move the fragments of changes/ to CHANGELOG.md
	$(PY) tools/changelog.py

lock: check-python ## write requirements/*.lock anew from requirements/dev.in, with hashes
	$(PYTHON) tools/lock.py

audit: $(READY) ## known faults of every locked package: by pages of the package index, and by pip-audit (needs the network)
	$(PY) tools/audit.py
	$(PY) -m pip_audit --strict --disable-pip --require-hashes --requirement $(LOCK) --requirement $(TORCH) $(ARGS)

clean: ## remove the report, caches and build leftovers
	rm -rf report build dist .pytest_cache .ruff_cache .mypy_cache .hypothesis docs/auto_examples docs/generated docs/sg_execution_times.rst
	find bochner tests benchmarks experiments examples tools docs -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

distclean: clean ## the same, and .venv
	rm -rf $(VENV) *.egg-info

check-python:
	@command -v $(PYTHON) >/dev/null 2>&1 || { \
	  echo "$(PYTHON) was not found. Install Python 3.11 or newer, or name one: make PYTHON=/path/to/python3 ..."; exit 1; } >&2
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Python 3.11 or newer is needed, and $(PYTHON) is $$($(PYTHON) --version 2>&1)."; \
	  echo "Name a newer one: make PYTHON=python3.12 ..."; exit 1; } >&2
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "$(PYTHON) has no venv module. On Debian and Ubuntu: sudo apt-get install python3-venv"; exit 1; } >&2

# The environment. .root holds the folder it was made for and dev.lock what was installed; both are written after the last
# package, so that a half-built environment has neither and is made again. An unchanged lock with a new date costs nothing.
# Every file must have a hash of the locks, which name all packages. torch is the build of torch-cpu.lock where that is to be
# had, such as from a folder that pip is told of by PIP_FIND_LINKS; else that of the package index.
INSTALL := $(PY) -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes --requirement
$(VENV)/.locked: $(LOCK) $(CPU) $(TORCH)
	@if cat $(LOCK) $(CPU) $(TORCH) | cmp -s - $(VENV)/dev.lock && [ "$$(cat $(VENV)/.root 2>/dev/null)" = "$(CURDIR)" ] && $(PY) -c ''; then touch $@; else \
	  $(MAKE) --no-print-directory check-python || exit 1; \
	  echo "Making $(VENV) from $(LOCK); this takes a minute or two, once"; \
	  $(PYTHON) -m venv --clear $(VENV) && \
	  $(INSTALL) $(LOCK) && \
	  { { $(INSTALL) $(CPU); $(PY) -c 'import importlib.metadata as m; m.version("torch")'; } 2>/dev/null || $(INSTALL) $(TORCH); } && { $(PY) -m pip check >$(VENV)/missing || { cat $(VENV)/missing >&2; false; }; } && \
	  cat $(LOCK) $(CPU) $(TORCH) > $(VENV)/dev.lock && printf '%s' "$(CURDIR)" > $(VENV)/.root && touch $@; fi

$(READY): $(VENV)/.locked pyproject.toml
	@$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

# A folder that was moved or copied, or whose interpreter is gone, gets a new environment.
ifneq ($(shell $(PY) -c '' 2>/dev/null && cat $(VENV)/.root 2>/dev/null),$(CURDIR))
$(VENV)/.locked: FORCE
endif
FORCE:
