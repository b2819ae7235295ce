"""A program that kills a fit again and again, and lets it end: ``python -m tests.estimators.killed_fits job.json out.npz``.

The job has the estimator's name, its options, the rows (a file), and a seed for the moments of the killing. Every fit is a
process of its own, forked from this one so that nothing has to be imported again. BLAS must have one thread.
"""

import importlib
import json
import os
import signal
import sys
import time
from pathlib import Path

import numpy as np

from bochner import KernelClassifier, KernelRegressor, MultipleKernelRegressor, checkpoint, open_rows
from bochner.estimators import blocks, machine, multiple_machine
from bochner.rows import source as row_source

KILLS = 10
LEARNERS = {learner.__name__: learner for learner in (KernelRegressor, KernelClassifier, MultipleKernelRegressor)}
KEPT = ("coef_", "intercept_", "scale_", "alpha_", "relevance_", "kernel_weights_", "metric_")
"""What is compared, as far as a learner has it."""


def fit(job, out, **options):
    model = LEARNERS[job["learner"]](**job["options"], **options)
    if job["streamed"]:
        model.fit(open_rows(job["rows"], target=job["target"]))
    else:
        rows = np.load(job["rows"])
        model.fit(rows[:, :-1], rows[:, -1])
    assert getattr(model, "finish_", "fourier") == job.get("finish", "fourier")
    arrays = {name: getattr(model, name) for name in KEPT if hasattr(model, name)}
    records = getattr(model, "history_", [])
    history = [{name: value for name, value in record.items() if name != "seconds"} for record in records]
    np.savez(out, history=json.dumps(history), **arrays)


def forked(*args, **options):
    """The process of a fit."""
    process = os.fork()
    if process:
        return process
    try:
        fit(*args, **options)
    except BaseException:  # noqa: BLE001, told to the process that waits
        sys.excepthook(*sys.exc_info())
        os._exit(1)
    os._exit(0)


def main(job_file, out):
    job, folder = json.loads(Path(job_file).read_text()), Path(out).parent
    machine.FEWEST_SAMPLED = multiple_machine.FEWEST_SAMPLED = 150
    blocks.BLOCK_BYTES, row_source.FEWEST_BLOCK_ROWS = 1, 256
    checkpoint.CHECKPOINT_SECONDS, checkpoint.SAVING_SHARE = 0.0, 1e9  # save the sums after every block
    if "device" in job["options"]:
        importlib.import_module("torch")  # once, not in every fit
    start = time.perf_counter()
    assert os.waitpid(forked(job, folder / "whole.npz"), 0)[1] == 0
    seconds = time.perf_counter() - start
    kept, rng, killed, ended = folder / "kept", np.random.default_rng(job["seed"]), 0, 0
    reach = 0.18
    while killed < KILLS:
        process = forked(job, out, checkpoint=str(kept), verbose=1)
        time.sleep(rng.uniform(0, reach) * seconds)
        done, status = os.waitpid(process, os.WNOHANG)
        if done:  # before it could be killed: the next one begins anew
            assert status == 0
            ended += 1
            continue
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
        killed += 1
        if not kept.exists():  # on a busy machine fits take longer than the first one did
            reach = min(1.5 * reach, 1.0)
    assert os.waitpid(forked(job, out, checkpoint=str(kept), verbose=1), 0)[1] == 0
    left = os.listdir(kept) if kept.exists() else []
    sys.stdout.write(json.dumps({"killed": killed, "ended": ended, "seconds": seconds, "left": left}))


if __name__ == "__main__":
    main(*sys.argv[1:])
