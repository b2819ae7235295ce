"""Who may import whom: downwards only. The import statements of every file in bochner/ are read, not run."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "bochner"
LAYERS = (
    ("errors",),
    ("archives", "blas", "durable", "memory"),
    ("threads",),
    ("in_place", "tiled"),
    ("arrays",),
    ("tables",),
    ("kernels", "sampling", "losses", "penalties", "statistics", "calibration", "folds", "rows"),
    ("features", "solvers", "streamed", "centres"),
    ("engines", "descent", "span"),
    ("progress", "standardise"),
    ("criteria", "fold_problems"),
    (
        "leave_one_out",
        "held_out_loss",
        "iterated_ridge",
        "full_ridge",
        "uncertainty",
        "effects",
        "checkpoint",
        "weight_search",
        "kernel_penalties",
        "evidence",
    ),
    ("single_kernel", "multiple_kernel"),
    ("metric_learning",),
    ("spectra",),
    ("estimators",),
    ("exact",),
    ("plots", "report", "scores", "persistence"),
    ("__init__",),
    ("model_report",),
    ("vision",),
    ("reproduce",),
    ("cli",),
    ("__main__",),
)
"""The rooms (a module or a folder each) from the ground up. A room sees those of the layers below, not its neighbours."""
NARROWER = {
    "solvers": {"errors", "arrays", "blas", "tiled", "losses", "penalties", "statistics"},
    "exact": {
        *(
            "errors",
            "arrays",
            "blas",
            "tiled",
            "memory",
            "kernels",
            "losses",
            "standardise",
            "folds",
            "solvers",
            "descent",
            "estimators",
        ),
    },
}
"""Rooms that see less than what is below them: a solver knows no kernel, the exact counterparts no random features."""
FROM_METHODS = {"estimators": {"persistence", "plots", "model_report"}}
"""Rooms above that a room may import inside functions, as a method hands over to them: ``model.save`` to ``persistence``."""
HEAVY = {
    "torch", "dask", "distributed", "matplotlib", "pandas", "polars", "pyarrow", "h5py", "zarr", "onnx", "onnxruntime",
    "safetensors", "jax", "cupy",
}  # fmt: skip
"""Imported inside the functions that need them, nowhere at the top of a file."""
IMAGES = {"cv2", "skimage", "PIL", "maxflow"}
"""Libraries of images and graphs that vision imports, and the experiments on it."""
SKLEARN = {"cli", "estimators", "exact", "persistence", "vision", "reproduce"}
"""Rooms that import scikit-learn: its face, and learners that stand on it."""
FILES = sorted(PACKAGE.rglob("*.py"))


def room(module):
    """bochner.kernels.base is in kernels; bochner itself in __init__."""
    return [*module.split("."), "__init__"][1]


def module_of(path):
    return ".".join(("bochner", *path.relative_to(PACKAGE).with_suffix("").parts))


def is_type_checking(node):
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def imports(path):
    """Pairs (module, whether at the top of the file) of every import statement; ``from bochner import x`` is bochner.x."""

    def visit(node, top):
        if isinstance(node, ast.Import):
            yield from ((alias.name, top) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}, line {node.lineno}: write relative imports in full"
            if node.module == "bochner":
                yield from ((f"bochner.{alias.name}", top) for alias in node.names)
            else:
                yield node.module, top
        inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or is_type_checking(node)
        for child in ast.iter_child_nodes(node):
            yield from visit(child, top and not inside)

    return list(visit(ast.parse(path.read_text()), True))


def allowed(name):
    """The rooms that a room may import, itself among them."""
    height = next(i for i, layer in enumerate(LAYERS) if name in layer)
    below = {other for layer in LAYERS[:height] for other in layer}
    return {name} | (NARROWER.get(name, below) & below)


each_file = pytest.mark.parametrize("path", FILES, ids=[str(path.relative_to(PACKAGE)) for path in FILES])


def test_every_module_has_its_place():
    placed = {name for layer in LAYERS for name in layer}
    found = {room(module_of(path)) for path in FILES}
    assert found <= placed, f"say in LAYERS where these belong: {sorted(found - placed)}"
    assert placed <= found, f"take these out of LAYERS, which are gone: {sorted(placed - found)}"
    assert len(placed) == sum(map(len, LAYERS))


@each_file
def test_imports_point_downwards(path):
    own = room(module_of(path))
    found = [(room(module), top) for module, top in imports(path) if module.split(".")[0] == "bochner"]
    seen = {name for name, top in found if top or name not in FROM_METHODS.get(own, ())}
    assert seen <= allowed(own), f"{own} must not import {sorted(seen - allowed(own))}"


@each_file
def test_heavy_libraries_are_imported_inside_functions(path):
    at_the_top = {module.split(".")[0] for module, top in imports(path) if top}
    assert not at_the_top & HEAVY


@each_file
def test_scikit_learn_is_imported_in_its_rooms_only(path):
    used = "sklearn" in {module.split(".")[0] for module, _ in imports(path)}
    assert not used or room(module_of(path)) in SKLEARN


@each_file
def test_libraries_of_images_and_vision_itself_are_imported_in_vision_and_above_it_only(path):
    used = {module.split(".")[0] for module, _ in imports(path)}
    rooms = {room(module) for module, _ in imports(path) if module.split(".")[0] == "bochner"}
    assert room(module_of(path)) in {"vision", "reproduce"} or not (used & IMAGES or "vision" in rooms)


@pytest.mark.parametrize("name", sorted(SKLEARN))
def test_rooms_of_scikit_learn(name):
    """They are the estimators and rooms above them, and do import it."""
    files = [path for path in FILES if room(module_of(path)) == name]
    assert any(module.split(".")[0] == "sklearn" for path in files for module, _ in imports(path))
    assert name == "estimators" or "estimators" in allowed(name)


def loaded(statement):
    """Names of the libraries in memory after a statement in a fresh process."""
    code = f"{statement}\nimport sys\nsys.stdout.write(' '.join({{name.split('.')[0] for name in sys.modules}}))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    return set(run.stdout.split())


def test_importing_bochner_loads_nothing_heavy():
    modules = {module for path in FILES for module, top in imports(path) if top and module.split(".")[0] == "sklearn"}
    alone = loaded("\n".join(f"import {module}" for module in sorted(modules)))
    extra = loaded("import bochner") - alone
    assert "bochner" in extra
    assert not extra & HEAVY
    assert not loaded("import bochner") & {"torch", "matplotlib"}


@pytest.mark.parametrize("name", sorted(FROM_METHODS))
def test_rooms_above_are_imported_in_two_files_and_when_asked(name):
    files = [path for path in FILES if room(module_of(path)) == name]
    above = [path.name for path in files if {room(module) for module, _ in imports(path)} & FROM_METHODS[name]]
    assert above == ["saving.py", "showing.py"]
    assert not any(top and room(module) in FROM_METHODS[name] for path in files for module, top in imports(path))


def test_the_reading_of_imports(tmp_path):
    """The reader finds imports wherever they stand, and knows the top of a file from the inside of a function."""
    source = """
import torch.nn
from bochner import kernels
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    import pandas
try:
    import dask
except ImportError:
    pass
class A:
    from bochner.engines import forward
    def f(self):
        import matplotlib.pyplot
"""
    path = tmp_path / "module.py"
    path.write_text(source)
    expected = {
        ("torch.nn", True),
        ("bochner.kernels", True),
        ("typing", True),
        ("pandas", False),
        ("dask", True),
        ("bochner.engines", True),
        ("matplotlib.pyplot", False),
    }
    assert set(imports(path)) == expected
    assert room("bochner.kernels.base") == "kernels"
    assert room("bochner") == "__init__"
    assert allowed("solvers") == {"solvers", "errors", "arrays", "blas", "tiled", "losses", "penalties", "statistics"}
