"""Columns that hold a list of numbers for every molecule."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cwnet.data import TableError
from cwnet.data._cell_lists import cell_lists, read_cell_table


def table(path, *cells, head="smiles,q"):
    lines = [f'CC,"{cell}"' if cell else "CC," for cell in cells]
    path.write_text("\n".join([head, *lines]) + "\n")
    return path


def lists(path, *columns):
    found = read_cell_table(path, None, columns or None)
    return [None if each is None else each.tolist() for each in cell_lists(found, "q")]


def test_lists_with_gaps(tmp_path):
    path = table(tmp_path / "a.csv", "[0.1, -2]", "", "[1e-3, null]", "[ ,NaN]", "[]", " [3, None] ", "NA")
    found = lists(path)
    np.testing.assert_equal(found, [[0.1, -2], None, [1e-3, np.nan], [np.nan, np.nan], [], [3, np.nan], None])


@given(st.lists(st.none() | st.floats(-1e6, 1e6), max_size=6))
def test_json_is_read(tmp_path_factory, numbers):
    path = table(tmp_path_factory.mktemp("t") / "a.csv", json.dumps(numbers), "[1]")
    expected = [np.nan if number is None else number for number in numbers]
    np.testing.assert_equal(lists(path, "q")[0], expected)


def test_columns_of_lists_are_found(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('smiles,id,q,name,r\nCC,1,"[1, 2]",x,"[3]"\nC,2,,y,"[4]"\n')
    found = read_cell_table(path)
    assert found.targets == ("q", "r")
    assert "lists are in 'q', 'r'" in found.notes[-1]
    assert found.y is None
    assert read_cell_table(path, None, ["r"]).targets == ("r",)


def test_parquet(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {"smiles": ["CC", "C"], "q": pa.array([[0.5, None], None], type=pa.list_(pa.float64()))}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    np.testing.assert_equal(lists(tmp_path / "a.parquet"), [[0.5, np.nan], None])


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (
            ("[1, 2]", "1.5"),
            r"row 3: '1.5' in the column 'q' is a number, and a list is needed .* leave out --target-level",
        ),
        (("[1, 2]", "abc"), r"row 3: 'abc' in the column 'q' is no list"),
        (("[1, 2",), r"row 2: '\[1, 2' in the column 'q' is no list"),
        (("[1, abc]",), r"row 2: 'abc' in a list of the column 'q' is not a finite number: .* write null"),
        (("[1, 1e99]",), r"'1e99' in a list"),
        (("[[1], 2]",), r"'\[1\]' in a list"),
        (("[1 2]",), r"'1 2' in a list"),
    ],
    ids=["number", "text", "open", "text in a list", "too large", "nested", "blanks"],
)
def test_what_is_no_list_is_refused_with_its_row(tmp_path, cells, message):
    with pytest.raises(TableError, match=message):
        lists(table(tmp_path / "a.csv", *cells), "q")


def test_no_lists(tmp_path):
    with pytest.raises(TableError, match="no column holds lists"):
        read_cell_table(table(tmp_path / "a.csv", "1", "2"))
    with pytest.raises(TableError, match="there is no column 'p'"):
        read_cell_table(table(tmp_path / "a.csv", "1", "2"), None, ["p"])
