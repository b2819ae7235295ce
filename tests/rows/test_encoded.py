"""Rows of files with categories, dates and gaps, block by block."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from bochner import FourierFeatures, KernelClassifier, KernelRegressor, MultipleKernelRegressor, open_rows
from bochner.rows import EncodedRows, csv_files, encoded
from bochner.tables import TableEncoder
from tests.tables.tables import cells

N = 300
KERNELS = [("house", "gaussian", ["age", "kind"]), ("place", "gaussian", ["city"])]


@pytest.fixture
def table():
    columns = cells(N)
    del columns["took"]  # of which CSV has no notion
    age = np.nan_to_num(np.array(columns["age"], dtype=float))
    rome = np.array([city == "Rome" for city in columns["city"]])
    y = age + 2 * rome + 0.3 * np.random.default_rng(1).standard_normal(N)
    return pd.DataFrame(columns).assign(y=y, label=np.where(y > 0.5, "high", "low"), w=1.0 + np.arange(N) % 2)


def write(table, suffix, folder, name="t"):
    path = folder / f"{name}.{suffix}"
    {"csv": lambda: table.to_csv(path, index=False), "parquet": lambda: table.to_parquet(path, row_group_size=70)}.get(
        suffix, lambda: table.to_feather(path, chunksize=70)
    )()
    return path


each_suffix = pytest.mark.parametrize("suffix", ["csv", "parquet", "feather"])
COLUMNS = ["age", "rooms", "city", "kind", "sold", "when", "date", "code", "text date"]


def opened(path, **options):
    return open_rows(path, columns=COLUMNS, encode=True, **{"target": "y", **options})


@each_suffix
@pytest.mark.parametrize("step", [7, 1000])
def test_blocks_are_those_of_the_table_in_memory(suffix, step, table, tmp_path, monkeypatch):
    monkeypatch.setattr(csv_files, "CSV_BYTES", 5000)
    monkeypatch.setattr(encoded, "LEARNING_ROWS", 50)
    source = opened(write(table, suffix, tmp_path), weight="w")
    expected = TableEncoder().fit(table[COLUMNS])
    assert source.names == tuple(expected.names_out)
    assert source.n_columns == len(expected.names_out)
    blocks = list(source.blocks(step))
    np.testing.assert_array_equal(np.concatenate([block.X for block in blocks]), expected.transform(table[COLUMNS]))
    np.testing.assert_allclose(np.concatenate([block.y for block in blocks]), table["y"], rtol=1e-15)
    np.testing.assert_array_equal(np.concatenate([block.weight for block in blocks]), table["w"])
    assert source.n_rows == N


def test_several_files_share_one_encoding(table, tmp_path):
    write(table[:100], "csv", tmp_path, "0")
    write(table[100:], "csv", tmp_path, "1")
    source = open_rows(tmp_path / "*.csv", columns=COLUMNS, target="y", encode=True)
    np.testing.assert_array_equal(source.sample(N).X, TableEncoder().fit(table[COLUMNS]).transform(table[COLUMNS]))


def test_precision(table, tmp_path):
    source = open_rows(write(table, "parquet", tmp_path), columns=["age", "city"], encode=True, dtype="float32")
    assert next(source.blocks(10)).X.dtype == np.float32


@each_suffix
def test_models_of_files_and_of_tables_are_one(suffix, table, tmp_path):
    path = write(table, suffix, tmp_path)
    model = KernelRegressor("gaussian", n_features=40, random_state=0).fit(opened(path))
    assert list(model.feature_names_in_) == COLUMNS
    assert isinstance(model.encoder_, TableEncoder)
    # other rows: fewer levels, other medians; they are encoded as those of fit
    later = table[table["city"] != "Oslo"][::3].reset_index(drop=True)
    source = open_rows(write(later, suffix, tmp_path, "later"), target="y", encode=True)
    np.testing.assert_allclose(model.predict(source), model.predict(later), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(model.score(source), model.score(later, later["y"]), rtol=1e-12)


def test_targets_of_text_and_many_kernels(table, tmp_path):
    path = write(table, "parquet", tmp_path)
    source = open_rows(path, columns=COLUMNS, target="label", encode=True)
    model = KernelClassifier("gaussian", n_features=40, random_state=0).fit(source)
    assert model.classes_.tolist() == ["high", "low"]
    assert model.score(source) > 0.7
    many = MultipleKernelRegressor(KERNELS, n_features=20, random_state=0).fit(opened(path))
    assert set(many.kernel_weights_by_name()) == {"house", "place"}
    np.testing.assert_allclose(many.predict(opened(path)), many.predict(table), rtol=1e-12, atol=1e-12)


def test_features_of_encoded_rows(table, tmp_path):
    path = write(table, "parquet", tmp_path)
    features = FourierFeatures("chi2").fit(open_rows(path, columns=["sold", "city"], encode=True))
    later = write(table[:20], "parquet", tmp_path, "later")
    found = features.transform(open_rows(later, columns=["sold", "city"], encode=True))
    np.testing.assert_array_equal(found, features.transform(table[:20]))
    assert any("city=Rome" in name for name in features.get_feature_names_out())


def test_a_model_of_encoded_rows_takes_no_plain_ones(table, tmp_path):
    model = KernelRegressor("gaussian", n_features=20, random_state=0).fit(opened(write(table, "parquet", tmp_path)))
    with pytest.raises(ValueError, match=r"was fitted on a table that it encoded as numbers: .* encode=True"):
        model.predict(open_rows(write(table, "csv", tmp_path), columns=["y", "w"]))
    lacking = write(table.drop(columns="city"), "csv", tmp_path, "lacking")
    with pytest.raises(ValueError, match="lacks columns that were there in fit: 'city'"):
        model.predict(open_rows(lacking, encode=True))


def test_what_is_refused(table, tmp_path):
    np.save(tmp_path / "t.npy", np.ones((3, 2)))
    with pytest.raises(ValueError, match=r"encode=True is for tables \(parquet, arrow, csv\), .* of format npy"):
        open_rows(tmp_path / "t.npy", encode=True)
    path = write(table, "parquet", tmp_path)
    with pytest.raises(ValueError, match="column 'city' holds text: encode it as numbers first, by encode=True"):
        open_rows(path, columns=["city"])
    with pytest.raises(ValueError, match="column 'city' holds text"):
        open_rows(path, columns=["age"], weight="city", encode=True)
    pa.parquet.write_table(pa.table({"v": [[1.0, 2.0]], "a": [1.0]}), tmp_path / "lists.parquet")
    with pytest.raises(ValueError, match="Column 'v' holds list"):
        _ = open_rows(tmp_path / "lists.parquet", encode=True).names
    write(table.assign(id=[f"row {i}" for i in range(N)]), "csv", tmp_path, "named")
    with pytest.warns(UserWarning, match="Column 'id' is left out"):
        names = open_rows(tmp_path / "named.csv", columns=["id", "age"], encode=True).names
    assert "id" not in names


def test_levels_are_learned_when_they_are_asked_for(table, tmp_path, monkeypatch):
    """New rows of a fitted model are encoded by it: nothing is learned from them."""
    path = write(table, "parquet", tmp_path)
    model = KernelRegressor("gaussian", n_features=20, random_state=0).fit(opened(path))
    monkeypatch.setattr(TableEncoder, "fit_blocks", lambda *_: pytest.fail("learned from new rows"))
    assert isinstance(opened(path), EncodedRows)
    model.predict(opened(path))
    model.score(opened(path))
