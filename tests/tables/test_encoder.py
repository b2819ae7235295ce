import datetime
import decimal
import json
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.preprocessing import OneHotEncoder

from bochner.tables import MOST_LEVELS, TableEncoder, UnseenLevelsWarning, is_table, needs_encoding
from bochner.tables.learning import MOST_TRACKED, Middle
from tests.tables.tables import LIBRARIES, cells, make

each_library = pytest.mark.parametrize("library", LIBRARIES)


@pytest.mark.parametrize("gaps", [True, False])
def test_all_libraries_give_the_same_numbers(gaps):
    columns = cells(gaps=gaps)
    first, *others = (make(library, columns) for library in LIBRARIES)
    encoder = TableEncoder().fit(first)
    expected = encoder.transform(first)
    assert expected.shape == (120, len(encoder.names_out))
    assert np.isfinite(expected).all()
    for table in others:
        assert TableEncoder().fit(table).state() == encoder.state()
        np.testing.assert_array_equal(encoder.transform(table), expected)


@each_library
@pytest.mark.parametrize("gaps", [True, False])
def test_one_hot_as_in_scikit_learn(library, gaps):
    columns = {name: cells(gaps=gaps)[name] for name in ("city", "kind")}
    expected = OneHotEncoder(drop="if_binary", sparse_output=False).fit_transform(pd.DataFrame(columns).astype(object))
    encoder = TableEncoder().fit(make(library, columns))
    np.testing.assert_array_equal(encoder.transform(make(library, columns)), expected)
    if not gaps:
        assert encoder.names_out == ["city=Bonn", "city=Oslo", "city=Rome", "kind=house"]


@each_library
def test_imputation_as_in_scikit_learn(library):
    columns = {name: cells()[name] for name in ("age", "rooms", "sold")}
    numbers = pd.DataFrame(columns)[["age", "rooms"]].to_numpy(dtype=float)
    encoder = TableEncoder().fit(make(library, columns))
    found = encoder.transform(make(library, columns))
    np.testing.assert_array_equal(found[:, [0, 2]], SimpleImputer(strategy="median").fit_transform(numbers))
    np.testing.assert_array_equal(found[:, [1, 3]], MissingIndicator().fit_transform(numbers))
    truth = np.array([[np.nan if v is None else float(v)] for v in columns["sold"]])
    np.testing.assert_array_equal(found[:, [4]], SimpleImputer(strategy="most_frequent").fit_transform(truth))
    assert encoder.names_out == ["age", "age=(missing)", "rooms", "rooms=(missing)", "sold", "sold=(missing)"]


def test_many_levels_are_grouped_as_in_scikit_learn():
    rng = np.random.default_rng(0)
    values = rng.choice([f"level {i:02d}" for i in range(60)], 2000, p=(w := np.arange(1, 61.0)) / w.sum())
    table = pd.DataFrame({"a": values})
    options = {"max_categories": MOST_LEVELS, "handle_unknown": "infrequent_if_exist", "sparse_output": False}
    reference = OneHotEncoder(**options).fit(table)
    encoder = TableEncoder().fit(table)
    new = pd.DataFrame({"a": [*values[:50], "never seen"]})
    np.testing.assert_array_equal(encoder.transform(new), reference.transform(new))
    assert encoder.names_out[-1] == "a=(other)"
    assert len(encoder.names_out) == MOST_LEVELS


def test_unseen_levels_and_gaps_are_zero_where_fit_had_neither():
    encoder = TableEncoder().fit(pd.DataFrame({"a": ["x", "y", "z"], "b": [1.0, 2.0, 4.0]}))
    new = pd.DataFrame({"a": ["w", None, "y"], "b": [None, 3.0, 3.0]})
    with pytest.warns(UnseenLevelsWarning, match=r"column 'a' in 1 of 3 rows, such as 'w'. They count as none"):
        found = encoder.transform(new)
    np.testing.assert_array_equal(found, [[0, 0, 0, 2], [0, 0, 0, 3], [0, 1, 0, 3]])
    assert encoder.unseen(new) == {"a": ["w"]}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        encoder.transform(new[1:])  # a gap is no level


@each_library
def test_parts_of_dates_as_in_python(library):
    times = cells(gaps=False)["when"]
    series = pd.Series(times)
    encoder = TableEncoder().fit(make(library, {"when": times}))
    found = dict(zip(encoder.names_out, encoder.transform(make(library, {"when": times})).T, strict=True))
    for part in ("year", "month", "day", "hour"):
        np.testing.assert_array_equal(found[f"when.{part}"], [getattr(time, part) for time in times])
    np.testing.assert_array_equal(found["when.weekday"], [time.weekday() for time in times])
    np.testing.assert_array_equal(found["when.seconds"], (series - pd.Timestamp(0)).dt.total_seconds())


def test_dates_before_1970_and_parts_that_do_not_vary():
    days = [datetime.datetime(1950, 3, 1, 22), datetime.datetime(1950, 3, 8, 23, 30)]
    encoder = TableEncoder().fit(pl.DataFrame({"d": days}))
    assert encoder.names_out == ["d.day", "d.hour", "d.seconds"]
    np.testing.assert_array_equal(encoder.transform(pl.DataFrame({"d": days}))[:, :2], [[1, 22], [8, 23]])


def test_time_zones_are_read_by_their_own_clock():
    there = pd.Series(pd.to_datetime(["2024-01-01 00:30", "2024-07-01 12:30"])).dt.tz_localize("Asia/Tokyo")
    for table in (
        pd.DataFrame({"t": there}),
        pl.DataFrame({"t": pl.Series(there.dt.tz_localize(None).tolist()).dt.replace_time_zone("Asia/Tokyo")}),
        pa.table({"t": pa.array(there)}),
    ):
        encoder = TableEncoder().fit(table)
        hours = encoder.transform(table)[:, encoder.names_out.index("t.hour")]
        np.testing.assert_array_equal(hours, [0, 12])


def test_text_that_is_numbers_or_dates():
    dates = ["2024-05-31", "2023-01-01 10:00", "", "2023-01-01T11:00:00Z"]
    table = pd.DataFrame({"n": ["1", " 2.5", "?", "1e3"], "d": dates})
    encoder = TableEncoder().fit(table)
    assert [each.kind for each in encoder.encodings] == ["numbers", "times"]
    np.testing.assert_array_equal(encoder.transform(table)[:, :2], [[1, 0], [2.5, 0], [2.5, 1], [1000, 0]])
    text = TableEncoder().fit(pd.DataFrame({"n": ["1", "two"], "d": ["2024-05-31", "2024-06-31"]}))
    assert [each.kind for each in text.encodings] == ["levels", "levels"]


def test_categories_of_numbers_are_levels():
    table = pd.DataFrame({"a": pd.Categorical([1, 2, 10, None])})
    encoder = TableEncoder().fit(table)
    assert encoder.names_out == ["a=1", "a=10", "a=2", "a=(missing)"]
    np.testing.assert_array_equal(encoder.transform(pd.DataFrame({"a": [10.0, 2.0]})), [[0, 1, 0, 0], [0, 0, 1, 0]])


@each_library
def test_columns_that_tell_nothing_are_zero(library):
    table = make(library, {"none": [None] * 3, "one": ["x"] * 3, "a": [1.0, 2.0, 3.0]})
    encoder = TableEncoder().fit(table)
    assert encoder.names_out == ["none", "one", "a"]
    np.testing.assert_array_equal(encoder.transform(table), [[0, 0, 1], [0, 0, 2], [0, 0, 3]])
    later = make(library, {"none": [5.0], "one": ["y"], "a": [1.0]})
    np.testing.assert_array_equal(encoder.transform(later), [[0, 0, 1]])


def test_text_that_tells_rows_apart_is_left_out():
    table = pd.DataFrame({"id": [f"row {i}" for i in range(200)], "a": np.arange(200.0)})
    with pytest.warns(UserWarning, match=r"Column 'id' is left out: .*200 distinct values in 200 cells.*TfidfVectorizer"):
        encoder = TableEncoder().fit(table)
    assert encoder.names_out == ["a"]
    np.testing.assert_array_equal(encoder.transform(table[["a"]]), table[["a"]])  # it is not asked for either
    with pytest.warns(UserWarning, match="left out"), pytest.raises(ValueError, match=r"No column .* can be learned from"):
        TableEncoder().fit(table[["id"]])


def test_levels_past_what_is_counted():
    half = [str(f"v{i}") for i in range(MOST_TRACKED + 1)] * 4  # a quarter of the cells is distinct
    with pytest.warns(UserWarning, match=f"more than {MOST_TRACKED:,} distinct values"):
        TableEncoder().fit(pd.DataFrame({"id": half, "a": 1.0}))


def test_columns_by_name():
    table = pd.DataFrame({"a": [1.0, 2.0], "city": ["x", "y"]})
    encoder = TableEncoder().fit(table)
    expected = encoder.transform(table)
    np.testing.assert_array_equal(encoder.transform(table[["city", "a"]].assign(extra=["?", "!"])), expected)
    with pytest.raises(ValueError, match=r"lacks columns .*: 'city' \(is it 'City'\?\)\. It has 'a', 'City'"):
        encoder.transform(table.rename(columns={"city": "City"}))


def test_errors_name_the_column():
    encoder = TableEncoder().fit(pd.DataFrame({"a": [1.0, None], "d": ["2024-01-01", "2025-01-01"], "t": [True, False]}))
    new = pd.DataFrame({"a": [1.0], "d": ["2024-01-01"], "t": [True]})
    for change, message in (
        ({"a": ["abc"]}, r"Column 'a' held numbers in fit, and now it holds text, such as 'abc'"),
        ({"d": ["soon"]}, r"Column 'd' held dates in fit, and now it holds text, such as 'soon'"),
        ({"d": [1.0]}, r"Column 'd' held dates in fit, and now it holds numbers"),
        ({"t": ["maybe"]}, r"Column 't' held true and false in fit, and now it holds 'maybe'"),
        ({"a": [[1, 2]]}, r"Column 'a' holds objects of type list"),
    ):
        with pytest.raises(ValueError, match=message):
            encoder.transform(new.assign(**change))
    with pytest.raises(ValueError, match="such as 'soon'"):
        encoder.transform(pd.concat([new, new.assign(d=["soon"])], ignore_index=True))
    with pytest.raises(ValueError, match=r"A table of pandas, polars or pyarrow .* got ndarray: .* 'a', 'd', 't'"):
        encoder.transform(np.ones((2, 3)))
    with pytest.raises(ValueError, match="2 columns named 'a'"):
        TableEncoder().fit(pd.DataFrame([["x", "y"]], columns=["a", "a"]))
    with pytest.raises(ValueError, match=r"0 sample\(s\)"):
        encoder.transform(new[:0])
    with pytest.raises(ValueError, match="most_levels must be 2 or more"):
        TableEncoder(most_levels=1)
    with pytest.raises(ValueError, match=r"Column 'v' holds .*List"):
        TableEncoder().fit(pl.DataFrame({"v": [[1.0]]}))


def test_equal_names_of_encoded_columns():
    table = pd.DataFrame({"a": ["x", "y", "z"], "a=x": [1.0, 2.0, None]})
    assert TableEncoder().fit(table).names_out == ["a=x", "a=y", "a=z", "a=x (2)", "a=x=(missing)"]


@each_library
def test_which_tables_need_it(library):
    def needed(**columns):
        return needs_encoding(make(library, columns))

    assert not needed(a=[1, 2], b=[0.5, 1.5], c=[True, False])
    assert not needed(a=["1", "2.5"])
    assert needed(a=[1, None])
    assert needed(a=[1.0, None])
    assert needed(a=["x", "1"])
    assert needed(a=[datetime.date(2024, 1, 1), datetime.date(2024, 1, 2)])
    assert not needs_encoding(make(library, {"a": ["x"], "b": [1.0]}), columns=[1])
    assert is_table(make(library, {"a": [1]}))
    assert not is_table([[1]])


def test_median_of_a_sample():
    rng = np.random.default_rng(0)
    values = rng.normal(size=100_000)
    middle = Middle(1000)
    for block in np.array_split(values, 37):
        middle.add(block)
    assert sum(map(len, middle.kept)) <= 1000
    at = np.quantile(values, [0.4, 0.6])  # a median of 500 or more leaves these by six standard deviations
    assert at[0] < middle.median < at[1]
    whole = Middle(None)
    whole.add(values)
    assert whole.median == np.median(values)
    kept = np.concatenate(middle.kept)
    np.testing.assert_array_equal(kept, values[:: middle.stride])  # whatever the blocks


@pytest.mark.parametrize("n_blocks", [1, 7])
def test_blocks_of_rows_are_learned_from_as_the_whole(n_blocks):
    table = pd.DataFrame(cells())
    blocks = (table.iloc[rows] for rows in np.array_split(np.arange(len(table)), n_blocks))
    assert TableEncoder().fit_blocks(blocks).state() == TableEncoder().fit(table).state()


times = st.datetimes(datetime.datetime(1900, 1, 1), datetime.datetime(2200, 1, 1))
column = st.one_of(
    st.lists(st.one_of(st.none(), st.floats(-1e6, 1e6)), min_size=4, max_size=4),
    st.lists(st.one_of(st.none(), st.integers(-9, 9)), min_size=4, max_size=4),
    st.lists(st.one_of(st.none(), st.text(max_size=4)), min_size=4, max_size=4),
    st.lists(st.one_of(st.none(), st.booleans()), min_size=4, max_size=4),
    st.lists(st.one_of(st.none(), times), min_size=4, max_size=4),
)


@settings(deadline=None, max_examples=150)
@given(st.dictionaries(st.text(min_size=1, max_size=3), column, min_size=1, max_size=4), st.integers(2, 4))
def test_state_goes_through_json(columns, most_levels):
    """An encoder that comes back from its state gives the same bits, for the table of fit and for others."""
    table = pl.concat([pl.DataFrame(columns, strict=False)] * 8)  # so that no text is left out
    encoder = TableEncoder(most_levels).fit(table)
    again = TableEncoder.from_state(json.loads(json.dumps(encoder.state())))
    assert again.names_out == encoder.names_out
    assert again.names_in == list(columns)
    assert len(set(again.names_out)) == len(again.names_out)
    for rows in (table, table.reverse(), table.select(pl.all().shuffle(0))):
        np.testing.assert_array_equal(again.transform(rows), encoder.transform(rows))
    assert np.isfinite(encoder.transform(table)).all()


def test_states_of_another_kind():
    with pytest.raises(ValueError, match=r"kind must be one of numbers, truth, .* got 'letters'"):
        TableEncoder.from_state({"most_levels": 3, "columns": [{"kind": "letters", "name": "a"}]})
    for wrong in ({}, [], {"most_levels": 3, "columns": 1}, {"columns": []}):
        with pytest.raises(ValueError, match="The state of a TableEncoder must be"):
            TableEncoder.from_state(wrong)
    good = {"kind": "numbers", "name": "a", "fill": 1.0, "gaps": False}
    assert TableEncoder.from_state({"most_levels": 3, "columns": [good]}).names_out == ["a"]
    for change in ({"fill": "x"}, {"fill": None}, {"gaps": 1}, {"name": 3}, {"more": 1}):
        with pytest.raises(ValueError, match="A column of the kind 'numbers' needs fill, gaps, name, got"):
            TableEncoder.from_state({"most_levels": 3, "columns": [good | change]})
    for kind, field, value in (("levels", "levels", [1]), ("times", "parts", ["minute"])):
        state = {"kind": kind, "name": "a", "gaps": False, field: value} | (
            {"other": False} if kind == "levels" else {"fill": 0}
        )
        with pytest.raises(ValueError, match=f"A column of the kind '{kind}' needs"):
            TableEncoder.from_state({"most_levels": 3, "columns": [state]})


def test_its_repr():
    assert repr(TableEncoder()) == "TableEncoder(most_levels=40)"
    assert repr(TableEncoder().fit(pd.DataFrame({"a": ["x", "y", "z"]}))) == "TableEncoder(1 columns to 3)"


def test_further_types_of_pandas():
    """Periods, nullable and Arrow's types, decimals, times of day, bytes, sparse columns."""
    day = datetime.date(2024, 2, 29)
    table = pd.DataFrame(
        {
            "decimal": [decimal.Decimal("1.5"), None],
            "period": pd.period_range("2020-01", periods=2, freq="M"),
            "string": pd.array(["a", None], dtype="string"),
            "boolean": pd.array([True, None], dtype="boolean"),
            "arrow date": pd.array([day, None], dtype=pd.ArrowDtype(pa.date32())),
            "arrow text": pd.array(["x", "y"], dtype=pd.ArrowDtype(pa.string())),
            "time": [datetime.time(1, 2), None],
            "bytes": [b"u", b"v"],
            "sparse": pd.arrays.SparseArray([0.0, 2.0]),
        }
    )
    encoder = TableEncoder().fit(table)
    found = dict(zip(encoder.names_out, encoder.transform(table).T.tolist(), strict=True))
    assert found == {
        "decimal": [1.5, 1.5],
        "decimal=(missing)": [0.0, 1.0],
        "period.month": [1.0, 2.0],
        "period.weekday": [2.0, 5.0],
        "period.seconds": [1577836800.0, 1580515200.0],
        "string=a": [1.0, 0.0],
        "string=(missing)": [0.0, 1.0],
        "boolean": [1.0, 1.0],
        "boolean=(missing)": [0.0, 1.0],
        "arrow date.seconds": [1709164800.0, 1709164800.0],
        "arrow date=(missing)": [0.0, 1.0],
        "arrow text=y": [0.0, 1.0],
        "time": [3720.0, 3720.0],
        "time=(missing)": [0.0, 1.0],
        "bytes=v": [0.0, 1.0],
        "sparse": [0.0, 2.0],
    }


def test_what_a_median_keeps_of_many_blocks_is_bounded(rng):
    """Also in memory: what is kept is no view of a block, which would keep all of it."""
    middle = Middle(1000)
    for _ in range(50):
        middle.add(rng.standard_normal(5000))
    held = sum(each.nbytes if each.base is None else each.base.nbytes for each in middle.kept)
    assert held <= 8 * 1000
    assert abs(middle.median) < 0.2


def test_a_column_of_arrays_is_refused_in_words():
    frame = pd.DataFrame({"a": [np.ones(2), np.zeros(2)]})
    with pytest.raises(ValueError, match="'a' holds objects of type ndarray"):
        TableEncoder().fit(frame)
