"""Amounts and dates as people write them: read as pandas and babel's conventions have it, or told apart from what is not."""

import warnings

import numpy as np
import pandas as pd
import pytest

from bochner.tables import TableEncoder
from bochner.tables.columns import KINDS
from bochner.tables.learning import numbers_of
from tests.tables.tables import LIBRARIES, make


def encoded(values, new=None):
    """The encoding of a column, and what new values become."""
    encoder = TableEncoder().fit(pd.DataFrame({"a": values}))
    again = TableEncoder.from_state(encoder.state())
    assert again.encodings == encoder.encodings
    return encoder.encodings[0], again.transform(pd.DataFrame({"a": values if new is None else new}))


def cells(text):
    return np.array(text, dtype=object)


# -- amounts -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["€1,234.50", "€7", "-€12.25"], [1234.5, 7, -12.25]),
        (["1.234,50 €", "7 €", "-12,25 €"], [1234.5, 7, -12.25]),
        (["1 234,50", "7,1", "12 345 678,25"], [1234.5, 7.1, 12345678.25]),
        (["CHF 1'234.50", "CHF 7", "CHF 12'000"], [1234.5, 7, 12000]),
        (["$1,234", "$56,789", "$12"], [1234, 56789, 12]),
        (["1.234 EUR", "56.789 EUR", "12 EUR"], [1234, 56789, 12]),
        (["1,234,567", "1,234", "5"], [1234567, 1234, 5]),
        (["12,5", "1.234,75", "3"], [12.5, 1234.75, 3]),
        (["(1,234.50)", "2.25", "3"], [-1234.5, 2.25, 3]),
        (["12%", "3.5 %", "-1%"], [12, 3.5, -1]),
        (["US$ 3.50", "US$ 4", "US$ .5"], [3.5, 4, 0.5]),
        (["\u22123,5", "4,25", "1,5"], [-3.5, 4.25, 1.5]),
    ],
)
def test_amounts_are_numbers(values, expected):
    encoding, found = encoded(values)
    assert encoding.kind == "sums"
    np.testing.assert_array_equal(found[:, 0], expected)
    np.testing.assert_array_equal(numbers_of(cells(values))[0], expected)


def test_pandas_reads_the_same_amounts(tmp_path):
    rng = np.random.default_rng(0)
    given = np.round(rng.uniform(0, 1e7, 300), 2)
    (tmp_path / "t.csv").write_text("a\n" + "\n".join(f'"{v:,.2f}"' for v in given))
    _, found = encoded([f"{v:,.2f}" for v in given])
    np.testing.assert_array_equal(found[:, 0], pd.read_csv(tmp_path / "t.csv", thousands=",")["a"])
    (tmp_path / "u.csv").write_text("a\n" + "\n".join(f'"{v:,.2f}"'.translate(str.maketrans(",.", ".,")) for v in given))
    _, found = encoded([f"{v:,.2f}".translate(str.maketrans(",.", ".,")) for v in given])
    np.testing.assert_array_equal(found[:, 0], pd.read_csv(tmp_path / "u.csv", thousands=".", decimal=",")["a"])


@pytest.mark.parametrize(
    "values",
    [
        ["€5", "$6", "€7"],
        ["1,234", "5,678", "12,345"],
        ["12-34", "5", "6"],
        ["1,23,456", "5", "6"],
        ["1.234,5", "1,234.5", "3"],
        ["5 kg", "6 kg", "7 kg"],
        ["€5$", "€6", "€7"],
        ["(5", "6", "7"],
    ],
)
def test_what_may_be_two_things_or_none_is_no_number(values):
    assert encoded(values)[0].kind == "levels"
    assert numbers_of(cells(values)) is None


def test_new_amounts_are_read_as_those_of_fit():
    values = ["1.234,50 €", "12,75 €", None, "3 €"]
    encoding, found = encoded(values, ["1.234 €", "1.234", "", "0,5"])
    assert (encoding.decimal, encoding.sign, encoding.gaps) == (",", "€", True)
    np.testing.assert_array_equal(found, [[1234, 0], [1234, 0], [12.75, 1], [0.5, 0]])
    np.testing.assert_array_equal(encoded(values, [1.5, 2.0])[1][:, 0], [1.5, 2.0])
    with pytest.raises(ValueError, match=r"held numbers such as 1\.234,50 € in fit, and now it holds text, such as '\$5'"):
        encoded(values, ["$5"])


# -- dates ---------------------------------------------------------------------------------------------------------------

DAYS = pd.date_range("2023-01-01 08:05", periods=400, freq="27h").floor("s")


@pytest.mark.parametrize(
    ("style", "kind"),
    [
        ("%d/%m/%Y", "written dates"),
        ("%m/%d/%Y", "written dates"),
        ("%d.%m.%Y", "written dates"),
        ("%d-%m-%Y %H:%M", "written dates"),
        ("%m/%d/%Y %I:%M:%S %p", "written dates"),
        ("%Y/%m/%d", "written dates"),
        ("%d %B %Y", "written dates"),
        ("%b %d, %Y", "written dates"),
        ("%Y-%m-%d", "times"),
    ],
)
@pytest.mark.parametrize("library", LIBRARIES)
def test_dates_are_those_that_were_written(style, kind, library):
    text = [day.strftime(style) for day in DAYS]
    columns = {"a": text}
    encoder = TableEncoder().fit(make(library, columns))
    assert encoder.encodings[0].kind == kind
    found = encoder.transform(make(library, columns))[:, encoder.names_out.index("a.seconds")]
    expected = pd.to_datetime(pd.Series(text), format=style)
    np.testing.assert_array_equal(found, (expected - pd.Timestamp(0)).dt.total_seconds())


def test_days_and_months_that_cannot_be_told_apart():
    """The advice fits; one cell that leaves no doubt is enough."""
    doubt = [f"{a:02d}/{b:02d}/{year}" for a in range(1, 13) for b in range(1, 13) for year in (2023, 2024)]
    with pytest.warns(
        UserWarning, match=r"dates such as '01/01/2023', of which day and month cannot be told apart.*2023-06-03"
    ):
        TableEncoder().fit(pd.DataFrame({"a": doubt, "b": np.arange(len(doubt))}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        encoder = TableEncoder().fit(pd.DataFrame({"a": [*doubt, "13/01/2023"]}))
    assert encoder.encodings[0].order == "dmy"
    with pytest.warns(
        UserWarning, match="is left out: it is text with 289 distinct values.*Drop it"
    ):  # no calendar has both
        TableEncoder().fit(pd.DataFrame({"a": [*doubt[1:], "13/01/2023", "01/13/2023"], "b": np.arange(289)}))
    assert TableEncoder().fit(pd.DataFrame({"a": ["1.2.2023", "3.4.2023", "2.2.2022"]})).encodings[0].order == "dmy"


def test_amounts_that_cannot_be_told_apart_have_an_advice():
    values = [f"{i},{j:03d}" for i in range(1, 9) for j in range(0, 999, 111)]
    with pytest.warns(UserWarning, match="cannot be told whether three digits are a fraction or thousands"):
        TableEncoder().fit(pd.DataFrame({"a": values, "b": np.arange(len(values))}))


def test_blocks_decide_as_the_whole_does():
    """The first blocks are in doubt, the last one is not."""
    text = [f"{i % 12 + 1:02d}/{(7 * i) % 12 + 1:02d}/2023" for i in range(90)] + ["30/06/2023"] * 10
    sums = [f"€{1 + i % 9},{100 + i}" for i in range(90)] + ["€1,000,000"] * 10
    table = pd.DataFrame({"day": text, "sum": sums})
    whole = TableEncoder().fit(table)
    parts = TableEncoder().fit_blocks([table[i : i + 10] for i in range(0, 100, 10)])
    assert parts.state() == whole.state()
    assert [each.kind for each in whole.encodings] == ["written dates", "sums"]


def test_new_dates_are_read_as_those_of_fit():
    encoding, found = encoded(["31/05/2023", "01/06/2023", "02/07/2023"], ["03/04/2023", "2023-04-03", "3 April 2023"])
    assert encoding.kind == "written dates"
    assert len({row.tobytes() for row in found}) == 1
    with pytest.raises(ValueError, match="held dates in fit, and now it holds text"):
        encoded(["31/05/2023", "01/06/2023", "02/07/2023"], ["13/31/2023"])


def test_every_kind_has_its_place_in_onnx():
    from bochner.persistence.onnx_tables import _WRITERS

    assert set(KINDS.values()) - set(_WRITERS) == {KINDS["blank"], KINDS["left out"]}


# -- numbers with something else among them ------------------------------------------------------------------------------

PLAIN = [f"{-0.0013638 + i / 977:.7f}" for i in range(610)]


def left_out(blocks):
    """What is said of column 'voice 1', which is left out."""
    tables = [pd.DataFrame({"voice 1": block, "b": np.arange(len(block))}) for block in blocks]
    with pytest.warns(UserWarning, match="is left out") as caught:
        encoder = TableEncoder().fit_blocks(tables)
    assert encoder.encodings[0].kind == "left out"
    return str(caught[0].message)


@pytest.mark.parametrize("size", [100, 10_000])
@pytest.mark.parametrize(
    ("values", "said"),
    [
        ([*PLAIN, "n/a?"], "610 of 611 cells are numbers, and 'n/a?' is not: empty it, or make it a number."),
        (["", *PLAIN, "n/a?"], "610 of 611 cells are numbers, and 'n/a?' is not: empty it, or make it a number."),
        (
            [*PLAIN[:3], "low", "n/a?", *PLAIN[3:], "low"],
            "610 of 613 cells are numbers, and 3 are not, such as 'low': empty these, or make them numbers.",
        ),
        (
            [f"{v} €".replace(".", ",") for v in PLAIN] + ["free"],
            "610 of 611 cells are numbers, and 'free' is not: empty it, or make it a number.",
        ),
        (
            ["2.5e-05", *(v.replace(".", ",") for v in PLAIN), "-1,25e-05"],
            "all 612 cells are numbers, but some have a comma before the fraction, such as '-0,0013638': write numbers with "
            "a point, such as -0.0013638.",
        ),
    ],
)
def test_a_column_of_mostly_numbers_names_the_cells_that_are_none(values, said, size):
    told = left_out([values[i : i + size] for i in range(0, len(values), size)])
    assert told == f"Column 'voice 1' is left out: {said}"


def test_cells_that_are_no_numbers_are_counted_behind_the_distinct_ones_that_are_kept():
    values = [str(i / 8) for i in range(12_000)]
    told = left_out([values[:6000], [*values[6000:], "late", values[3], "later"]])
    assert "12,001 of 12,003 cells are numbers, and 2 are not, such as 'late':" in told


@pytest.mark.parametrize(
    "values",
    [
        [f"room {i}" for i in range(200)],
        [f"A{i}" for i in range(100)] + [str(i) for i in range(100)],  # as many numbers as others
        [f"${i}" for i in range(100)] + [f"€{i}" for i in range(100)],  # which are not the same money
    ],
)
def test_a_column_of_text_keeps_its_words(values):
    assert f"it is text with 200 distinct values in 200 cells, such as {values[0]!r}, too many" in left_out([values])


def test_levels_that_look_like_numbers_are_levels():
    values = pd.Categorical([*PLAIN, "n/a?"])
    assert "it is text with 611 distinct values" in left_out([values])
