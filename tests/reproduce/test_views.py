"""The same experiments on any set of several views."""

import numpy as np
import pytest
from scipy.io import savemat

from bochner.reproduce import command
from bochner.reproduce.errors import ReproduceError
from bochner.reproduce.protocol import labels_of
from bochner.reproduce.views import read_views, views_problem

N = 90
TABLE, Y = np.ones((8, 2)), np.arange(8) % 2


@pytest.fixture
def views():
    """Three classes, told apart by the first view."""
    rng = np.random.default_rng(0)
    y = np.arange(N) % 3
    return [rng.normal(0, 1, (N, 4)) + 3 * np.eye(3, 4)[y], rng.normal(0, 1, (N, 5))], y


def test_a_file_goes_all_the_way(views, tmp_path, capsys):
    tables, y = views
    path = tmp_path / "some.npz"
    np.savez(path, view_0=tables[0], view_1=tables[1], y=y, names=["good", "noise"])
    out = tmp_path / "out"
    asked = ["--views", str(path), "--out", str(out), "--size", "smoke", "--quiet"]
    assert command.main([*asked, "--only", "table_a", "--only", "table_b"]) == 0
    told = capsys.readouterr()
    assert "RFF-SKL within 0.03" in told.out
    text = (out / "tables" / "table_b.md").read_text()
    assert "good" in text
    cells = [
        [cell.strip() for cell in line.split("|")] for line in text.splitlines() if line.startswith(("| good", "| noise"))
    ]
    weights = {line[1]: float(line[4]) for line in cells}
    assert weights["good"] > weights["noise"]
    text = (out / "reproduce.md").read_text()
    assert "some.npz in place of segments" in text
    assert "bochner reproduce --views some.npz --out results --size smoke\n" in text


@pytest.mark.parametrize(
    ("given", "typed"), [([], ""), (["--data", "a/b"], "--data VOCdevkit"), (["--views", "a/b.mat"], "--views b.mat")]
)
def test_the_page_says_what_to_type_for_the_data(given, typed):
    assert command.source_of(command.parser().parse_args(["--out", "out", "--size", "smoke", *given])) == typed


def test_test_rows_are_half_of_each_class_and_no_training_rows(views, tmp_path):
    tables, y = views
    np.savez(tmp_path / "some.npz", view_0=tables[0], view_1=tables[1], y=y)
    problem = views_problem(tmp_path / "some.npz", command.SOURCES["smoke"].protocol, seed=0)
    assert np.bincount(problem.test_labels).tolist() == [15, 15, 15]
    assert not set(problem.train.groups) & set(problem.test.groups)
    assert not problem.histograms


def test_matlab_files_may_be_turned(views, tmp_path):
    tables, y = views
    cell = np.empty((1, 2), dtype=object)
    cell[0, 0], cell[0, 1] = tables[0].T, tables[1].T
    savemat(tmp_path / "some.mat", {"data": cell, "truth": y[:, None]})
    found = read_views(tmp_path / "some.mat")
    np.testing.assert_allclose(found.tables["view_0"], tables[0], rtol=1e-6)
    assert found.labels.tolist() == y.tolist()


def test_numbers_of_views_may_have_zeros_before_them(tmp_path):
    np.savez(tmp_path / "some.npz", view_02=TABLE, view_10=3 * TABLE, view_01=2 * TABLE, y=Y)
    found = read_views(tmp_path / "some.npz").tables
    assert {name: float(table[0, 0]) for name, table in found.items()} == {"view_01": 2, "view_02": 1, "view_10": 3}
    assert list(found) == ["view_01", "view_02", "view_10"]


def test_other_rows_or_labels_of_the_same_file_are_another_problem(views, tmp_path):
    tables, y = views
    keys = set()
    for table, labels in ((tables[0], y), (tables[0], y[::-1]), (tables[0][::-1], y)):
        np.savez(tmp_path / "some.npz", view_0=table, y=labels)
        keys.add(views_problem(tmp_path / "some.npz", command.SOURCES["smoke"].protocol, seed=0).key)
    assert len(keys) == 3


def test_a_file_may_say_what_its_rows_are_worth_and_which_are_tested(views, tmp_path):
    tables, y = views
    worth = 0.8 * np.eye(3)[y]
    worth[::10] /= 2  # which show nothing
    tested, groups, scores = np.arange(N) % 4 == 0, np.arange(N) // 4, np.arange(N) / N
    more = {"classes": ["a", "b", "c"], "groups": groups, "tested": tested, "scores": scores, "about": "Rows from nowhere."}
    np.savez(tmp_path / "some.npz", view_0=tables[0], y=worth, same_units=True, **more)
    problem = views_problem(tmp_path / "some.npz", command.SOURCES["smoke"].protocol, seed=0)
    assert problem.classes == ("a", "b", "c")
    assert problem.same_units
    assert problem.departures[-1] == "Rows from nowhere."
    np.testing.assert_array_equal(problem.train.groups, groups[~tested])
    np.testing.assert_array_equal(problem.scores, scores[~tested])
    np.testing.assert_array_equal(problem.test.worth, worth[tested & (worth.max(axis=1) >= 0.5)])
    # of the rows to learn from only four show nothing, where five are wanted
    assert np.bincount(labels_of(problem.train.take(problem.chosen(10)).worth) + 1).tolist() == [4, 2, 2, 2]


def npz(path, **arrays):
    np.savez(path, **arrays)


WRONG = {
    "no views": ({"x": TABLE, "y": Y}, "expected arrays view_0"),
    "no labels": ({"view_0": TABLE}, "expected arrays view_0"),
    "other rows": ({"view_0": TABLE, "view_1": np.ones((5, 2)), "y": Y}, "view_1 must be a table of numbers with 8 rows"),
    "infinite": ({"view_0": TABLE * np.inf, "y": Y}, "not finite"),
    "one class": ({"view_0": TABLE, "y": 0 * Y}, "two classes or more"),
    "no columns": ({"view_0": TABLE[:, :0], "y": Y}, "view_0 must be a table of numbers with 8 rows"),
    "labels": ({"view_0": TABLE, "y": np.where(Y, np.nan, 0)}, "y holds numbers that are not finite"),
    "names": ({"view_0": TABLE, "y": Y, "names": np.array(["a", "b"])}, "expected 1 different names"),
    "groups": ({"view_0": TABLE, "y": Y, "groups": np.arange(3)}, "groups must have the shape (8,), got (3,)"),
    "scores": ({"view_0": TABLE, "y": Y, "scores": np.full(8, np.nan)}, "scores must be finite numbers"),
    "tested": ({"view_0": TABLE, "y": Y, "tested": Y == 0}, "rows to learn from of every class, got none of 0"),
}


@pytest.mark.parametrize("case", WRONG, ids=list(WRONG))
def test_wrong_files_get_one_line(case, tmp_path, capsys):
    arrays, told = WRONG[case]
    npz(tmp_path / "some.npz", **arrays)
    asked = ["--views", str(tmp_path / "some.npz"), "--out", str(tmp_path / "out"), "--size", "smoke"]
    assert command.main(asked) == command.WRONG
    line = capsys.readouterr().err
    assert line.count("\n") == 1
    assert told in line
    assert "some.npz" in line


def test_files_that_cannot_be_read(tmp_path):
    for name, told in (
        ("some.npz", "cannot be read as npz"),
        ("some.mat", "cannot be read"),
        ("some.csv", "expected a file"),
    ):
        (tmp_path / name).write_text("nothing of the kind")
        with pytest.raises(ReproduceError, match=told):
            read_views(tmp_path / name)
    np.save(tmp_path / "one.npy", TABLE)
    with pytest.raises(ReproduceError, match="no archive of arrays"):
        read_views((tmp_path / "one.npy").rename(tmp_path / "one.npz"))
    cell = np.empty((1, 1), dtype=object)
    cell[0, 0] = TABLE
    savemat(tmp_path / "none.mat", {"data": cell, "truth": np.empty((0, 0), dtype=object)})
    with pytest.raises(ReproduceError, match="a cell of views"):
        read_views(tmp_path / "none.mat")
    with pytest.raises(ReproduceError, match="no such file"):
        read_views(tmp_path / "none.npz")
