"""A task for many images: all are done once, failures are listed, and a killed run goes on where it was."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from bochner.vision import runner
from bochner.vision.datasets import DataError, VOCDataset
from bochner.vision.runner import KILLED, Cost, ImageLine, RunError, estimate, run_images
from bochner.vision.store import Store, StoreError, configuration_of
from tests.vision.trees import HEIGHT, WIDTH, voc_tree

NAMES = [f"image{k}" for k in range(7)]
each_way = pytest.mark.parametrize("n_jobs", [1, 2])


@dataclass(frozen=True)
class Square:
    """Writes down that it ran; fails, dies or waits on request."""

    folder: Path
    fails: tuple[str, ...] = ()
    dies: tuple[str, ...] = ()
    slow: float = 0.0

    def __call__(self, name):
        with open(self.folder / f"{name}.ran", "a") as file:
            file.write("x")
        if name in self.fails:
            raise DataError(f"{name}.jpg: this image\nis missing.") if name == "image1" else ZeroDivisionError("oh")
        if name in self.dies:
            os._exit(3)
        time.sleep(self.slow)
        return {"number": np.array(int(name[5:]) ** 2)}


def runs(folder):
    return {path.stem: len(path.read_text()) for path in folder.glob("*.ran")}


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "store", configuration_of(seed=1))


@each_way
def test_every_image_is_done_once(tmp_path, store, n_jobs):
    records = []
    outcome = run_images(Square(tmp_path), NAMES, store, n_jobs=n_jobs, progress=records.append)
    assert (outcome.n_done, outcome.n_kept, outcome.failed, outcome.interrupted) == (7, 0, {}, False)
    assert [int(store.load(name)["number"]) for name in NAMES] == [k**2 for k in range(7)]
    assert [record["done"] for record in records] == list(range(1, 8))
    assert runs(tmp_path) == dict.fromkeys(NAMES, 1)
    again = run_images(Square(tmp_path), [*NAMES, "image9"], store, n_jobs=n_jobs)
    assert (again.n_done, again.n_kept) == (1, 7)
    assert runs(tmp_path) == dict.fromkeys([*NAMES, "image9"], 1)


@each_way
def test_failures_are_listed_and_tried_again(tmp_path, store, n_jobs):
    outcome = run_images(Square(tmp_path, fails=("image1", "image4")), NAMES, store, n_jobs=n_jobs)
    assert outcome.n_done == 5
    assert outcome.failed == {"image1": "image1.jpg: this image is missing.", "image4": "ZeroDivisionError: oh"}
    assert str(outcome) == "5 images done, 2 failed"
    fixed = run_images(Square(tmp_path), NAMES, store, n_jobs=n_jobs)
    assert (fixed.n_done, fixed.n_kept, fixed.failed) == (2, 5, {})


def test_a_process_that_dies_costs_its_image_only(tmp_path, store):
    outcome = run_images(Square(tmp_path, dies=("image2",)), NAMES, store, n_jobs=2)
    assert outcome.failed == {"image2": KILLED}
    assert outcome.n_done == 6


def test_processes_that_all_die_end_the_run(tmp_path, store, monkeypatch):
    monkeypatch.setattr(runner, "MOST_DEATHS", 2)
    with pytest.raises(RunError, match="2 processes died"):
        run_images(Square(tmp_path, dies=tuple(NAMES)), NAMES, store, n_jobs=2)


def test_workers_have_one_thread(store):
    run_images(Threads(), ["image0"], store, n_jobs=2)
    found = store.load("image0")
    assert found["blas"].max() == 1
    assert found["opencv"] == 1


@dataclass(frozen=True)
class Threads:
    def __call__(self, name):
        import cv2
        from threadpoolctl import threadpool_info

        return {
            "blas": np.array([1, *(some["num_threads"] for some in threadpool_info())]),
            "opencv": np.array(cv2.getNumThreads()),
        }


# -- interrupted and killed ----------------------------------------------------------------------------------------------


SCRIPT = """
import sys
from pathlib import Path
from tests.vision.test_runner import NAMES, Square
from bochner.vision.runner import run_images
from bochner.vision.store import Store, configuration_of

if __name__ == "__main__":
    folder = Path(sys.argv[1])
    store = Store(folder / "store", configuration_of(seed=1))
    outcome = run_images(Square(folder, slow=0.4), NAMES, store, n_jobs=int(sys.argv[2]))
    sys.exit(5 if outcome.interrupted else 0)
"""


def started(folder, n_jobs):
    (folder / "script.py").write_text(SCRIPT)
    root = Path(__file__).parents[2]
    return subprocess.Popen(
        [sys.executable, folder / "script.py", folder, str(n_jobs)],
        env={**os.environ, "PYTHONPATH": str(root)},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for(condition, seconds=60):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@each_way
@pytest.mark.parametrize("how", [signal.SIGINT, getattr(signal, "SIGKILL", None)], ids=["Ctrl-C", "killed"])
@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_run_that_is_stopped_goes_on_where_it_was(tmp_path, store, n_jobs, how):
    process = started(tmp_path, n_jobs)
    wait_for(lambda: list(store.folder.glob("*.npz")))
    if how == signal.SIGINT:
        os.killpg(process.pid, how)  # as a terminal does
    else:
        process.kill()
    _, errors = process.communicate(timeout=60)
    if how == signal.SIGINT:
        assert process.returncode == 5
        assert "Traceback" not in errors
        assert not list(store.folder.glob("*.part"))
    wait_for(lambda: not members(process.pid))
    done = [name for name in NAMES if store.has(name)]
    assert 0 < len(done) < len(NAMES)
    assert len(done) == len(list(store.folder.glob("*.npz")))
    outcome = run_images(Square(tmp_path), NAMES, store)
    assert (outcome.n_done, outcome.n_kept) == (len(NAMES) - len(done), len(done))
    assert all(runs(tmp_path)[name] == 1 for name in done)
    assert [int(store.load(name)["number"]) for name in NAMES] == [k**2 for k in range(7)]


def members(group):
    """Processes of a group that still run: workers end with the program that started them."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            found.append(path.parent.name)
    return found


# -- estimates and lines -------------------------------------------------------------------------------------------------


def test_estimates(tmp_path, store, monkeypatch):
    dataset = VOCDataset(voc_tree(tmp_path))
    cost = Cost(disk=10.0, memory=100.0, process=1000.0)
    found = estimate(dataset, dataset.names, cost, 2, store)
    assert found.disk == 10 * 4 * HEIGHT * WIDTH
    assert found.memory == 2 * (1000 + 100 * HEIGHT * WIDTH)
    assert str(found) == "4 images, 2 processes: about 96 kB on disk, 482 kB of memory"
    assert estimate(dataset, dataset.names, cost, 64, store).n_jobs == 4
    monkeypatch.setattr(runner, "free_bytes", lambda: 1000 + 100 * HEIGHT * WIDTH)
    assert estimate(dataset, dataset.names, cost, 4, store).n_jobs == 1
    with pytest.raises(StoreError, match="are needed, and the disk has"):
        estimate(dataset, dataset.names, Cost(1e18, 1.0), 1, store)


def test_an_estimate_without_any_readable_image(tmp_path, store):
    year = voc_tree(tmp_path)
    for path in (year / "JPEGImages").glob("*"):
        path.write_bytes(b"")
    dataset = VOCDataset(year)
    assert estimate(dataset, dataset.names, Cost(1.0, 1.0), 2, store).disk == 0


def test_the_line(capsys):
    line = ImageLine()
    for done in (1, 2, 3):
        line({"done": done, "failed": done // 2, "n_images": 300 if done < 3 else 3, "seconds": 25.0 * done, "name": "a"})
    line.close()
    told = capsys.readouterr().err
    assert "3 of 3 images, 1 failed, 25 s each, 0 s left" in told
    assert line.text({"done": 1, "failed": 0, "n_images": 300, "seconds": 25.0}).endswith("2 h 4 min left")
    assert line.text({"done": 1, "failed": 0, "n_images": 6, "seconds": 25.0}).endswith("2 min 5 s left")
