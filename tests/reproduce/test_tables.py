"""Tables, goals and claims read rows and nothing else."""

import pytest

from bochner.reproduce.experiments import EXPERIMENTS
from bochner.reproduce.experiments.table_a import device_table
from bochner.reproduce.goals import FAILS, HOLDS, MISSED, REACHED, UNKNOWN, claims, goals
from bochner.reproduce.options import GMKL, KRR_GD, RFF_GL, RFF_SKL
from bochner.reproduce.selection import ClassTime, class_times, sizes_of_slope, slope, weights_of
from bochner.reproduce.tables import Table, write_table


def row(learner, n, accuracy, seconds, **more):
    """A row as it comes from the file; one_class and weights as given."""
    result = {"n": n, "accuracy": accuracy, "class_accuracies": [accuracy, accuracy], **more.get("result", {})}
    if more.get("one_class"):
        del result["accuracy"]
    options = {"one_class": more.get("one_class", False), "refit": more.get("refit", False), "schedule": "small-to-large"}
    run = {"learner": learner, "n": n, "options": options, "device": None}
    about = {"machine": {"cpu": "c", "device": None, "cores": 2, "blas_threads": [1]}, "versions": {}, "date": "2026-01-01"}
    return {"key": f"{learner}{n}", "run": run, "result": result, "seconds": seconds, "about": about}


KERNELS = ["sift_fg", "sift_bg", "phog_plain"]


@pytest.fixture
def rows():
    """Made-up rows: time of features linear, of exact ones quadratic and cubic."""
    found = [row(RFF_SKL, n, 0.30 + n / 1e6, {"total": n / 1e3}) for n in (1000, 2000, 4000, 60_000)]
    found += [row(KRR_GD, n, 0.32 + n / 1e6, {"total": n**3 / 1e9}) for n in (1000, 2000, 4000)]
    mine, theirs = [[3.0, 3.0], [2.0, 2.0], [1.0, 1.0]], [[3.0, 2.0], [2.0, 3.0], [1.0, 1.0]]
    for n in (1000, 2000, 4000, 20_000):
        result = {"kernels": KERNELS, "weights": mine}
        found.append(row(RFF_GL, n, 0.40, {"total": n / 1e4}, result=result))
    for n in (1000, 2000, 4000):
        seconds = {"kernels": n**2 / 1e6, "classes": [0.0, 0.0], "total": n**2 / 1e6}
        found.append(row(GMKL, n, 0.41, seconds, result={"kernels": KERNELS, "weights": theirs}))
    seconds = {"kernels": 24.0, "classes": [1.0], "total": 25.0}
    return [*found, row(GMKL, 5000, 0.0, seconds, one_class=True, result={"kernels": KERNELS, "weights": [[1.0]] * 3})]


def test_slopes_are_powers_of_n(rows):
    assert slope(class_times(rows, RFF_SKL)) == pytest.approx(1.0)
    assert slope(class_times(rows, KRR_GD)) == pytest.approx(3.0)
    assert slope(class_times(rows, GMKL)) == pytest.approx(2.0)
    assert slope({1: class_times(rows, GMKL)[1000]}) is None


def test_slopes_leave_out_small_sizes_where_there_are_three_larger_ones():
    bent = {n: ClassTime(5.0 if n < 2500 else n / 500) for n in (100, 2500, 5000, 10_000)}
    assert slope(bent) == pytest.approx(1.0)
    assert slope(bent, list(bent)) < 0.9
    few = {n: bent[n] for n in (100, 2500, 5000)}
    assert slope(few) == slope(few, list(few))
    more = bent | {2500: ClassTime(10.0, n_features=9), 20_000: ClassTime(40.0)}
    assert sizes_of_slope(more) == [5000, 10_000, 20_000]


def test_weights_are_those_of_the_largest_size_that_both_learned(rows):
    found = weights_of(rows)
    assert found.n == 4000
    assert found.correlations().tolist() == pytest.approx([1.0, 0.5])


def test_goals(rows):
    verdicts = [goal.verdict for goal in goals(rows)]
    # slopes; within 0.03 and within 0.02; ahead by scale twice; weights; 25 s against 2 s; no GPU
    assert verdicts == [REACHED] * 4 + [REACHED, REACHED] + [REACHED, MISSED] + [REACHED] + [REACHED] + [UNKNOWN]


def test_rows_of_a_gpu_may_come_from_elsewhere(rows):
    there = row(RFF_SKL, 100_000, 0.5, {"total": 7.0})
    there["run"] |= {"device": "cuda", "data": "others"}
    *same, before = goals(rows)
    *others, after = goals(rows, [there])
    assert others == same
    assert (before.verdict, after.verdict) == (UNKNOWN, REACHED)
    assert after.found == "7.0 s for n = 100,000 (others)"
    assert device_table([there]).lines == [["100,000", "0.500", "7.00"]]


def test_without_rows_nothing_is_known():
    assert {goal.verdict for goal in goals([])} == {UNKNOWN}
    assert {claim.verdict for claim in claims([])} == {UNKNOWN}


def test_claims(rows):
    found = {claim.wanted: claim.verdict for claim in claims(rows)}
    assert found["RFF-GL is ahead of GMKL by its scale"] == FAILS
    assert found["RFF-SKL is ahead of KRR-GD once that no longer fits"] == HOLDS
    assert found["time of KRR-GD is cubic in n"] == HOLDS
    assert found["both weigh SIFT above pHOG"] == HOLDS


def test_table_a_has_our_numbers_and_the_paper_s(rows):
    table = EXPERIMENTS["table_a"].tables(rows)[0]
    lines = {line[0]: line[1:] for line in table.lines}
    assert lines["60,000"] == ["0.360", "60", "0.32", "-", "-", "-"]
    assert lines["1,000"][3:5] == ["0.321", "1.00"]


def test_variants_stand_beside_what_they_are_compared_with(rows):
    assert EXPERIMENTS["ours"].tables(rows) == []
    (table,) = EXPERIMENTS["ours"].tables([*rows, row(RFF_GL, 2000, 0.45, {"total": 3.0}, refit=True)])
    assert [line[1:4] for line in table.lines] == [["2,000", "0.400", "0.20"], ["2,000", "0.450", "3.00"]]


@pytest.mark.parametrize("experiment", EXPERIMENTS.values(), ids=list(EXPERIMENTS))
def test_tables_need_nothing_but_rows(experiment, rows, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    for table in experiment.tables(rows):
        assert all(len(line) == len(table.header) for line in table.lines)
        assert table.markdown().count("\n") == len(table.lines) + 3
    assert experiment.tables([]) is not None


def test_latex_is_escaped(tmp_path):
    write_table(Table("some", "50 % & more", ["a_b", "c"], [["x_y", "-"]]), tmp_path)
    text = (tmp_path / "some.tex").read_text()
    assert r"a\_b & c \\" in text
    assert r"x\_y & -- \\" in text
    assert r"50 \% \& more" in text
    assert r"\$\{a\}\textasciicircum{}\textbackslash{}b" in Table("some", r"${a}^\b", ["a"], []).latex()
    assert (tmp_path / "some.md").read_text().startswith("| a_b |")
