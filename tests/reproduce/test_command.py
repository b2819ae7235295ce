"""``bochner reproduce`` on made-up images: all experiments, going on after a kill, and what is refused."""

import json
import shutil

import pytest

from bochner.durable import Log
from bochner.reproduce import command
from bochner.reproduce.experiments import EXPERIMENTS
from bochner.reproduce.rows import LINES, LOG

pytest.importorskip("cv2")
pytest.importorskip("maxflow")
pytest.importorskip("matplotlib")


def rows_of(out):
    return [json.loads(line) for line in (out / LINES).read_text().splitlines()]


def without_times(rows):
    """Rows as bytes, without what a second run cannot have the same: seconds and the date."""
    plain = [{**row, "seconds": None, "about": {**row["about"], "date": None}} for row in rows]
    return json.dumps(plain).encode()


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A whole run at the smallest size."""
    out = tmp_path_factory.mktemp("reproduce") / "out"
    assert command.main(["--size", "smoke", "--out", str(out), "--quiet"]) == 0
    return out


def test_every_experiment_has_what_it_promises(made):
    for name, experiment in EXPERIMENTS.items():
        if experiment.draw is not None:
            assert (made / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
            assert (made / "figures" / f"{name}.pdf").read_bytes().startswith(b"%PDF")
    for name in ("table_a", "figure_b", "figure_c", "table_b", "figure_d", "ours", "labelling"):
        assert (made / "tables" / f"{name}.md").is_file()
        assert "\\begin{tabular}" in (made / "tables" / f"{name}.tex").read_text()
    assert len(list((made / "pictures").glob("*.png"))) == 2


def test_rows_say_what_they_are_of(made):
    rows = rows_of(made)
    assert {row["run"]["learner"] for row in rows} == {"RFF-SKL", "KRR-GD", "RFF-GL", "GMKL", "labelling"}
    for row in rows:
        assert row["about"]["seed"] == 0
        assert {"bochner", "numpy", "scipy", "scikit-learn", "python"} <= row["about"]["versions"].keys()
        assert row["about"]["machine"]["cores"] >= 1
        assert row["seconds"]["total"] > 0
        assert row["seconds"].get("total_clock", 1) > 0
        assert 0 <= row["result"].get("accuracy", 0) <= 1
    assert len({row["key"] for row in rows}) == len(rows)


def test_learners_do_better_than_chance(made):
    accuracies = [row["result"]["accuracy"] for row in rows_of(made) if "accuracy" in row["result"]]
    assert min(accuracies) > 0.5  # of three classes


def test_the_page_lists_goals_claims_and_departures(made):
    text = (made / "reproduce.md").read_text()
    for heading in ("## Goals", "## The paper's claims", "## Accuracy, in words", "## Departures from the paper"):
        assert heading in text
    assert "17 of 20 classes have too few segments here" in text


def test_a_run_that_was_killed_goes_on_and_has_the_same_rows(made, tmp_path, monkeypatch):
    again = tmp_path / "out"
    shutil.copytree(made, again)
    log = Log(again / LOG)
    n_kept = len(log.records) - 4
    log.cut(n_kept)
    log.close()
    with open(again / LOG, "ab") as file:
        file.write(b'0000 {"torn": ')
    ran = []
    measure = command.Runner._measured
    monkeypatch.setattr(command.Runner, "_measured", lambda self, run: ran.append(run) or measure(self, run))
    assert command.main(["--size", "smoke", "--out", str(again), "--quiet"]) == 0
    assert len(ran) == 4
    assert without_times(rows_of(again)) == without_times(rows_of(made))
    assert rows_of(again)[:n_kept] == rows_of(made)[:n_kept]


def test_nothing_is_computed_twice_and_tables_come_from_rows_alone(made, tmp_path, monkeypatch):
    again = tmp_path / "out"
    shutil.copytree(made, again)
    shutil.rmtree(again / "tables")
    monkeypatch.setattr(command.Runner, "_measured", lambda self, run: pytest.fail(f"{run} was there"))
    assert command.main(["--size", "smoke", "--out", str(again), "--quiet", "--page", str(tmp_path / "page.md")]) == 0
    for path in (made / "tables").iterdir():
        assert (again / "tables" / path.name).read_bytes() == path.read_bytes()
    assert (tmp_path / "figures" / "reproduce" / "figure_c.png").is_file()
    assert "(figures/reproduce/figure_c.png)" in (tmp_path / "page.md").read_text()


def test_one_experiment_alone(tmp_path):
    assert command.main(["--size", "smoke", "--out", str(tmp_path), "--quiet", "--only", "figure_d"]) == 0
    assert rows_of(tmp_path) == []
    assert [path.name for path in (tmp_path / "tables").glob("*.md")] == ["figure_d.md"]


def test_one_learner_alone_and_rows_from_another_machine(made, tmp_path, capsys):
    out = tmp_path / "out"
    asked = ["--size", "smoke", "--out", str(out), "--quiet", "--only", "table_a", "--learner", "RFF-SKL"]
    assert command.main([*asked, "--gpu-rows", str(made / LINES)]) == 0
    assert {row["run"]["learner"] for row in rows_of(out)} == {"RFF-SKL"}
    assert "## On a GPU" in (out / "reproduce.md").read_text()
    (tmp_path / "some.jsonl").write_text("{}\n")
    assert command.main([*asked, "--gpu-rows", str(tmp_path / "some.jsonl")]) == command.WRONG
    assert "line 1 is no row of results" in capsys.readouterr().err


def test_progress_is_on_standard_error(made, tmp_path, capsys):
    shutil.copytree(made, tmp_path / "out")
    assert command.main(["--size", "smoke", "--out", str(tmp_path / "out"), "--only", "table_a"]) == 0
    told = capsys.readouterr()
    assert "run 5 of 5: KRR-GD, 120 rows" in told.err
    assert "reached" in told.out or "missed" in told.out


REFUSED = {
    "no data": (["--size", "laptop"], "--size laptop needs data: --data VOCdevkit"),
    "both": (["--data", ".", "--views", "some.npz"], "expected --data or --views, got both"),
    "descriptors of views": (["--views", "some.npz", "--descriptors", "."], "leave it out"),
    "seed": (["--size", "smoke", "--seed", "-1"], "expected a seed of 0 or more"),
    "no such folder": (["--data", "nowhere"], "there is no such folder"),
    "device": (["--size", "smoke", "--device", "abacus"], "--device abacus"),
}


@pytest.mark.parametrize("case", REFUSED, ids=list(REFUSED))
def test_what_cannot_work_gets_one_line(case, tmp_path, capsys, monkeypatch):
    if case == "device":
        pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    arguments, told = REFUSED[case]
    assert command.main([*arguments, "--out", str(tmp_path / "out")]) == command.WRONG
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert line.startswith("bochner reproduce: ")
    assert told in line


def test_a_folder_without_image_sets_is_refused(tmp_path, capsys):
    (tmp_path / "images").mkdir()
    (tmp_path / "masks").mkdir()
    asked = ["--data", str(tmp_path), "--out", str(tmp_path / "out")]
    assert command.main(asked) == command.WRONG
    assert capsys.readouterr().err.count("\n") == 1


def test_two_programs_do_not_share_a_folder(tmp_path, capsys):
    log = Log(tmp_path / LOG)
    try:
        assert command.main(["--size", "smoke", "--out", str(tmp_path)]) == command.WRONG
        assert "another program is writing here now" in capsys.readouterr().err
    finally:
        log.close()
