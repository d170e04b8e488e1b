import csv
import gzip
import tracemalloc
import warnings

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from cwnet import Rings, lift
from cwnet.data._splits import column_split
from cwnet.data._store_file import StoreWriter, open_store
from cwnet.data._tables import TableError, find_duplicates, iterate_table, lift_table, read_table
from cwnet.errors import LiftingBudgetExceeded, LiftingWarning

TEXT = "smiles,y,name\nCCO,1.5,ethanol\nc1ccccc1,-2,benzene\nC,,methane\n"


@pytest.fixture
def write(tmp_path):
    def written(name, content):
        path = tmp_path / name
        data = content if isinstance(content, bytes) else content.encode()
        path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
        return path

    return written


def parquet(columns):
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue().to_pybytes()


def numbers(table):
    return [[None if np.isnan(v) else v for v in row] for row in table.y.tolist()]


def same(a, b):
    """Two tables with the same content."""
    pair = (a.y, b.y)
    return (
        a.smiles == b.smiles
        and a.rows.tolist() == b.rows.tolist()
        and (pair == (None, None) or torch.equal(*(torch.nan_to_num(y, nan=1e9) for y in pair)))
        and a.columns.to_pydict() == b.columns.to_pydict()
        and (a.targets, a.classes) == (b.targets, b.classes)
    )


# Formats


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize(
    ("name", "between"),
    [("t.csv", ","), ("t.csv", ";"), ("t.tsv", "\t"), ("t.txt", "\t"), ("t.csv.gz", ","), ("t.CSV", ",")],
)
def test_text_is_read_whatever_its_line_ends_marks_and_separators(write, name, between, mark, end):
    table = read_table(write(name, mark + TEXT.replace(",", between).replace("\n", end)))
    assert table.smiles == ["CCO", "c1ccccc1", "C"]
    assert table.targets == ("y",)
    assert numbers(table) == [[1.5], [-2.0], [None]]
    assert table.y.dtype == torch.float32
    assert table.rows.tolist() == [2, 3, 4]
    assert table.column("name") == ["ethanol", "benzene", "methane"]
    assert table.column("y") == ["1.5", "-2", ""]
    assert repr(table) == "MoleculeTable(3 molecules, 1 target)"


@pytest.mark.parametrize("name", ["t.parquet", "t.pq", "t.parquet.gz"])
def test_parquet_is_read_with_its_types(write, name):
    columns = {
        "SMILES": ["CCO", "C", None],
        "y": [1.5, None, 2.0],
        "n": pa.array([1, None, 2**60], pa.int64()),
        "b": [True, False, None],
        "when": pa.array([1, 2, 3], pa.date32()),
        "kind": pa.array(["a", "b", "a"]).dictionary_encode(),
    }
    table = read_table(write(name, parquet(columns)))
    assert table.smiles == ["CCO", "C", ""]
    assert table.rows.tolist() == [1, 2, 3]
    assert table.targets == ("y", "n", "b")
    assert numbers(table) == [[1.5, 1.0, 1.0], [None, None, 0.0], [2.0, float(2**60), None]]
    assert table.column("kind") == ["a", "b", "a"]
    assert read_table(table.path, None, "kind").classes == {"kind": ("a", "b")}
    with pytest.raises(TableError, match="'when' is of type date32"):
        read_table(table.path, None, "when")


def test_smi_is_a_smiles_and_the_rest_of_its_line(write):
    table = read_table(write("t.smi", "\ufeffCCO ethanol, or alcohol\r\n\r\n# a comment\r\nC\r\nCC\tethane\r\n"))
    assert table.smiles == ["CCO", "C", "CC"]
    assert table.column("name") == ["ethanol, or alcohol", "", "ethane"]
    assert table.rows.tolist() == [1, 4, 5]
    assert table.y is None


def test_smi_may_have_a_header_and_targets(write):
    table = read_table(write("t.smi.gz", "smiles zinc_id y\nCCO 17 1.5\nC 18\n"))
    assert (table.smiles, table.targets, numbers(table)) == (["CCO", "C"], ("y",), [[1.5], [None]])
    tabs = read_table(write("t.smi", "SMILES\tname\ty\nCCO\tan alcohol\t1.5\n"))
    assert (tabs.column("name"), numbers(tabs)) == (["an alcohol"], [[1.5]])
    assert numbers(read_table(write("u.smi", "CCO 1.5\nC 2\n"), None, "name")) == [[1.5], [2.0]]
    assert read_table(write("v.smiles", "smiles\nCCO x\n")).column("name") == ["x"]


def test_rows_are_the_lines_on_which_records_start(write):
    text = '\n\nsmiles,about,y\nCCO,"two\nlines",1\n\nC,"a ""word"", and more",2\n,,\nCC,,3\n'
    table = read_table(write("t.csv", text))
    assert table.rows.tolist() == [4, 7, 9]
    assert table.column("about") == ["two\nlines", 'a "word", and more', ""]
    assert numbers(table) == [[1.0], [2.0], [3.0]]


def test_a_table_without_header_is_told_so(write):
    path = write("t.csv", "CCO,1.5\nC,2\n")
    with pytest.raises(TableError, match=r"no column 'smiles'.*'1.5' is no name: has the file no header"):
        read_table(path, "smiles")
    table = read_table(path, header=False)
    assert (table.smiles, table.targets, table.rows.tolist()) == (["CCO", "C"], ("column 2",), [1, 2])


def test_all_numbers_are_read_as_python_reads_them(write):
    texts = ["1", "+1", ".5", "5.", "1e3", " 7 ", "-0", "1E-3", "NaN", "NA", "n/a", "null", "None", "?", "-", ""]
    values = [1.0, 1.0, 0.5, 5.0, 1000.0, 7.0, 0.0, np.float32(1e-3), *[None] * 8]
    table = read_table(write("t.csv", "smiles,y\n" + "".join(f"C,{text}\n" for text in texts)))
    assert [row[0] for row in numbers(table)] == values


# Columns


@pytest.mark.parametrize(
    ("header", "found"),
    [
        ("id,smiles,canonical_smiles", "smiles"),
        ("name,SMILES,y", "SMILES"),
        ("name,Canonical SMILES,y", "Canonical SMILES"),
        ("name,mol,y", "mol"),
        ("name,parent_smiles_2,y", "parent_smiles_2"),
        ("a,b,c", "b"),
    ],
)
def test_the_column_of_smiles_is_found(write, header, found):
    table = read_table(write("t.csv", f"{header}\n1,CCO,2\n"))
    assert table.smiles == table.column(found)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\nCCO,CC\n", "may be in any of 'a', 'b': say where"),
        ("smiles,SMILES\nCCO,CC\n", "may be in any of 'smiles', 'SMILES'"),
        ("a,b\n1,2\n", "no column has text for SMILES; the columns are 'a', 'b'"),
        ("smiles,y,y\nC,1,2\n", "row 1: the column 'y' is there twice"),
    ],
)
def test_an_unclear_column_of_smiles_is_asked_for(write, text, message):
    with pytest.raises(TableError, match=message):
        read_table(write("t.csv", text))


def test_missing_columns_are_named_with_those_that_exist_and_the_nearest(write):
    path = write("t.csv", "smiles,logP,name\nCCO,1,x\n")
    with pytest.raises(
        TableError, match=r"t.csv: there is no column 'SMILE'; the nearest is 'smiles'. The columns are "
    ):
        read_table(path, "SMILE")
    with pytest.raises(TableError, match=r"no column 'logp'; the nearest is 'logP'. .* 'smiles', 'logP', 'name'"):
        read_table(path, target_columns=["logp"])
    with pytest.raises(TableError, match=r"no column 'zzz'. The columns are"):
        iterate_table(path, target_columns="zzz")
    with pytest.raises(TableError, match="the nearest is 'name'"):
        read_table(path).column("nam")
    with pytest.raises(TableError, match="'smiles' has the SMILES"):
        read_table(path, target_columns=["smiles"])
    wide = ",".join(f"c{i}" for i in range(50))
    with pytest.raises(TableError, match=r"'c19', … \(50 in all\)"):
        read_table(write("wide.csv", f"{wide}\n{wide}\n"), "smiles")


def test_all_columns_of_numbers_are_targets_but_for_ids(write):
    header = ",Unnamed: 0,mol_id,compoundID,Identifier,split,fold,LIPID,acid,smiles,note,mixed"
    table = read_table(write("t.csv", f"{header}\n1,1,1,1,1,0,1,2,3,CCO,x,1\n2,2,2,2,2,0,1,,4,C,y,z\n"))
    assert table.targets == ("LIPID", "acid")
    assert numbers(table) == [[2.0, 3.0], [None, 4.0]]
    assert table.notes == ("no target columns were named; those of numbers were taken: 'LIPID', 'acid'",)
    assert read_table(table.path, target_columns=()).y is None
    assert read_table(table.path, target_columns="mol_id").notes == ()


def test_a_split_may_be_a_column(write):
    table = read_table(write("t.csv", "smiles,split\nCCO,train\nC,valid\nCC,test\nCCC,tset\n"))
    assert repr(column_split(table.column("split")[:3])) == "Split(1 train, 1 val, 1 test)"
    with pytest.raises(ValueError, match="row 5: 'tset' is not a part of a split: did you mean 'test'"):
        column_split(table.column("split"), rows=table.rows)


def test_tables_are_selected_from(write):
    table = read_table(write("t.csv", TEXT))
    for some in (table.select([2, 0]), table.select(slice(None, None, -2)), table.select(np.array([2, 0]))):
        assert (some.smiles, some.rows.tolist(), some.column("name")) == (["C", "CCO"], [4, 2], ["methane", "ethanol"])
        assert numbers(some) == [[None], [1.5]]
    assert table.select([True, False, True]).smiles == ["CCO", "C"]
    assert len(table.select([])) == 0


# Targets


def test_empty_targets_are_masked_in_every_task(write):
    table = read_table(write("t.csv", "smiles,a,b,c\nC,0,,\nCC,,1,\nCCC,1,NA,\n"), None, ["b", "a", "c"])
    assert table.targets == ("b", "a", "c")
    assert numbers(table) == [[None, 0.0, None], [1.0, None, None], [None, 1.0, None]]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("abc", r"row 3: 'abc' in the column 'y' is not a number: .*task='classification'"),
        ('"1,5"', "row 3: '1,5' in the column 'y' has a decimal comma"),
        ("inf", "row 3: 'inf' in the column 'y' is not a finite number"),
        ("1e39", "row 3: '1e39' in the column 'y' is not a finite number of 32 bits"),
        ("1_000", "row 3: '1_000' in the column 'y' is not a number"),
    ],
)
@pytest.mark.parametrize("task", [None, "regression"])
def test_a_target_that_is_no_number_is_named_with_its_row(write, value, message, task):
    path = write("t.csv", f"smiles,y\nC,1\nCC,{value}\n")
    message = message.replace(".*task='classification'", "" if task else ".*task='classification'")
    with pytest.raises(TableError, match=message) as caught:
        read_table(path, None, "y", task=task)
    assert (caught.value.row, caught.value.path) == (3, path)
    with pytest.raises(TableError, match=message):
        list(iterate_table(path, None, "y", task=task))


def test_labels_that_are_texts_are_numbered_with_a_note_or_refused(write):
    path = write("t.csv", "smiles,activity\nC,inactive\nCC,active\nCCC,\nCCCC,none\n")
    table = read_table(path, None, "activity")
    assert table.classes == {"activity": ("active", "inactive", "none")}
    assert table.notes == ("the labels of 'activity' were numbered: 'active' = 0, 'inactive' = 1, 'none' = 2",)
    assert table.labels.tolist() == [1, 0, -1, 2]
    assert numbers(table) == [[1.0], [0.0], [None], [2.0]]
    with pytest.raises(TableError, match="row 2: the label 'inactive' in the column 'activity' is not an integer"):
        read_table(path, None, "activity", strict=True)


@pytest.mark.parametrize(
    ("labels", "classes", "expected"),
    [
        (["0", "1", "2.0", ""], ("0", "1", "2"), [0, 1, 2, -1]),
        (["-1", "1", "+1", "01"], ("-1", "1"), [0, 1, 1, 1]),
        (["10", "9", "9", "10"], ("9", "10"), [1, 0, 0, 1]),
        (["True", "False", "True", "NA"], ("False", "True"), [1, 0, 1, -1]),
    ],
)
def test_integer_labels_are_classes_when_it_is_said(write, labels, classes, expected):
    path = write("t.csv", "smiles,y\n" + "".join(f"C,{label}\n" for label in labels))
    strict = classes != ("False", "True")
    table = read_table(path, None, "y", task="classification", strict=strict)
    assert (table.classes, table.labels.tolist()) == ({"y": classes}, expected)
    assert len(table.notes) == (classes != ("0", "1", "2"))


def test_numbers_that_are_not_integers_can_be_labels_unless_strict(write):
    path = write("t.csv", "smiles,y\nC,10.5\nCC,2.5\n")
    assert read_table(path, None, "y", task="classification").classes == {"y": ("2.5", "10.5")}
    with pytest.raises(TableError, match=r"row 2: the label '10.5' .* is not an integer"):
        read_table(path, None, "y", task="classification", strict=True)
    assert read_table(path, task="classification").classes == {"y": ("2.5", "10.5")}


def test_classes_can_be_given_so_that_two_files_agree(write):
    table = read_table(write("t.csv", "smiles,y\nC,b\nC,c\n"), None, "y", classes={"y": ["a", "b", "c"]})
    assert table.labels.tolist() == [1, 2]
    with pytest.raises(TableError, match=r"row 3: 'c' in the column 'y' is not one of its classes \('a', 'b'\)"):
        read_table(table.path, None, "y", classes={"y": ["a", "b"]})
    with pytest.raises(TableError, match="classes for 'smiles', which is not a target"):
        read_table(table.path, None, "y", classes={"smiles": ["a"]})
    assert read_table(write("u.csv", "smiles,y\nC,1\n"), None, "y", classes={"y": [1, 0]}).labels.tolist() == [0]


def test_texts_of_which_all_differ_are_no_classes_unless_it_is_said(write):
    path = write("t.csv", "smiles,y\n" + "".join(f"C,t{i}\n" for i in range(101)))
    with pytest.raises(TableError, match=r"'y' has more than 100 texts, such as 't0'"):
        read_table(path, None, "y")
    assert len(read_table(path, None, "y", task="classification").classes["y"]) == 101


def test_a_list_of_labels_is_no_class(write):
    path = write("t.csv", 'smiles,y\nC,"[0, 1]"\nCC,"[1, 1]"\n')
    with pytest.raises(TableError, match=r"row 2: '\[0, 1\]' in the column 'y' is a list: give each task its own"):
        read_table(path, None, "y")


def test_labels_need_one_column_of_classes(write):
    with pytest.raises(ValueError, match="one target of class labels"):
        _ = read_table(write("t.csv", TEXT)).labels


def test_other_tasks_are_refused(write):
    with pytest.raises(ValueError, match="task='ranking' is not one of"):
        read_table(write("t.csv", TEXT), task="ranking")


# Files that are not whole


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", "", "the file is empty"),
        ("t.csv", "\n \n", "the file is empty"),
        ("t.csv", "smiles,y\n", "no rows"),
        ("t.smi", "# nothing\n", "the file is empty"),
        ("t.csv", "smiles,y\nC\nC,1,2\n", "no rows in it that can be read; row 2: it has 1 fields"),
        ("t.csv", b"smiles,y\nC,\xe9\n", "not text in UTF-8"),
        ("t.csv", "smiles,y\n".encode("utf-16"), "not text in UTF-8"),
        ("t.csv", 'smiles,y\n"CC,2\n', "row 2: this is not CSV: .*quotation mark"),
        ("t.csv", 'smiles,y\n"C"C,2\n', "row 2: this is not CSV"),
        ("t.parquet", b"PAR1 and more", "not a whole Parquet file"),
        ("t.parquet", b"", "not a whole Parquet file"),
        ("t.parquet", parquet({"smiles": pa.array([], pa.string())}), "no rows"),
        ("t.xlsx", "", r"the suffix '.xlsx' stands for no table known here: rename it to end in one of .csv"),
        ("table", "", "no suffix"),
    ],
)
@pytest.mark.parametrize("read", [read_table, lambda path: list(iterate_table(path))])
def test_files_that_are_no_tables_say_why(write, name, content, message, read):
    with pytest.raises(TableError, match=message):
        read(write(name, content))


def test_damaged_gzip_missing_files_and_folders_say_why(tmp_path, write):
    path = write("t.csv.gz", "smiles,y\n" + "CCO,1.25\nc1ccccc1,3\n" * 5000)
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(TableError, match="not a whole gzip file"):
        read_table(path)
    path.write_bytes(b"smiles,y\nC,1\n")
    with pytest.raises(TableError, match="not a whole gzip file"):
        read_table(path)
    with pytest.raises(TableError, match="can not be read: No such file or directory"):
        read_table(tmp_path / "none.csv")
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(TableError, match="can not be read: is not a plain file but a folder"):
        read_table(tmp_path / "folder.csv")


def test_rows_of_the_wrong_length_are_rejected_or_refused(write, tmp_path):
    path = write("t.csv", "smiles,y\nCCO,1\nC\nCC,2,3\nCCC,4,,\n")
    table = read_table(path)
    assert table.smiles == ["CCO", "CCC"]
    assert [(r.row, r.text) for r in table.rejects] == [(3, "C"), (4, "CC,2,3")]
    assert table.rejects[1].reason == "it has 3 fields, and there are 2 columns"
    with pytest.raises(TableError, match="row 3: it has 1 fields, and there are 2 columns: 'C'"):
        read_table(path, strict=True)


# Pieces


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz", "t.smi", "t.parquet"])
@pytest.mark.parametrize("size", [1, 3, 7, 100])
def test_pieces_make_up_the_table(write, name, size):
    labels = ["b", "a", "", "c", "a", "b", "b"]
    if name == "t.parquet":
        content = parquet({"smiles": ["C"] * 7, "name": [label or None for label in labels], "y": range(7)})
    elif name == "t.smi":
        content = "".join(f"{'C' * (i + 1)} {label}\n" for i, label in enumerate(labels))
    else:
        content = "smiles,name,y\n" + "".join(f"C,{label},{i}\n" for i, label in enumerate(labels))
    path = write(name, content)
    whole = read_table(path, None, "name")
    pieces = list(iterate_table(path, None, "name", chunk_rows=size))
    assert [len(piece) for piece in pieces] == [size] * (7 // size) + [7 % size] * (7 % size > 0)
    assert all(piece.classes == {"name": ("a", "b", "c")} for piece in pieces)
    start = 0
    for piece in pieces:
        assert same(piece, whole.select(slice(start, start + len(piece))))
        start += len(piece)


def test_pieces_keep_their_rejects_and_a_late_text_is_met_at_once(write):
    path = write("t.csv", "smiles,y\nC,1\nC\nC,2\nC,3,4\nC,x\n")
    with pytest.raises(TableError, match="row 6: 'x'"):
        iterate_table(path, None, "y", chunk_rows=1)
    assert [p.targets for p in iterate_table(path, chunk_rows=1)] == [()] * 3
    pieces = list(iterate_table(path, None, (), chunk_rows=1))
    assert [([*p.rows], [r.row for r in p.rejects]) for p in pieces] == [([2], []), ([4], [3]), ([6], [5])]
    with pytest.raises(ValueError, match="chunk_rows=0"):
        iterate_table(path, chunk_rows=0)


def test_memory_does_not_grow_with_the_file(write):
    def peak(rows):
        path = write("t.csv", "smiles,y,name\n" + "".join(f"CCO{'C' * (i % 20)},{i},name {i}\n" for i in range(rows)))
        count, arrow = 0, 0
        tracemalloc.start()
        for piece in iterate_table(path, chunk_rows=1000):
            count += len(piece)
            arrow = max(arrow, pa.total_allocated_bytes())
        most = tracemalloc.get_traced_memory()[1] + arrow
        tracemalloc.stop()
        assert count == rows
        return most

    peak(1000)  # what is imported or cached on the way counts once
    assert peak(40_000) < 1.5 * peak(4_000)


# Molecules


@pytest.fixture
def molecules(write):
    pytest.importorskip("rdkit")
    text = "smiles,y\nCCO,1\nC1C,2\nc1ccccc1,\n,4\nOCC,1\nC1=CC=CC=C1,3\nCC(C)(C)(C)C,6\nCCO,2\n"
    return read_table(write("t.csv", text), None, "y")


def test_molecules_that_parse_are_lifted_and_the_others_reported(molecules, tmp_path):
    with pytest.warns(LiftingWarning, match=r"t.csv: 3 rows were left out .* the first: row 3: SMILES 'C1C'"):
        store, kept = lift_table(molecules, Rings(6))
    assert store.num_cells == (21, 18, 2)
    assert len(store) == len(kept) == 5
    assert kept.rows.tolist() == [2, 4, 6, 7, 9]
    assert torch.equal(torch.nan_to_num(store.y, nan=-1), torch.tensor([[1.0], [-1.0], [1.0], [3.0], [2.0]]))
    assert store.lifting == "Rings(6)"
    assert [(r.row, r.text) for r in kept.rejects] == [(3, "C1C"), (5, ""), (8, "CC(C)(C)(C)C")]
    assert "unclosed ring" in kept.rejects[0].reason
    assert "blank" in kept.rejects[1].reason
    assert "valence" in kept.rejects[2].reason
    kept.write_rejects(tmp_path / "rejects.csv")
    with open(tmp_path / "rejects.csv", newline="", encoding="utf-8") as file:
        written = list(csv.reader(file))
    assert written == [["row", "text", "reason"], *([str(r.row), r.text, r.reason] for r in kept.rejects)]


def test_lifted_tables_are_what_single_molecules_lift_to(molecules):
    from rdkit import Chem

    with pytest.warns(LiftingWarning):
        store, kept = lift_table(molecules, Rings(6), threads=1, init="sum")
    for i, text in enumerate(kept.smiles):
        alone = lift(Chem.MolFromSmiles(text), Rings(6), init="sum")
        assert store[i].num_cells == alone.num_cells
        assert all(torch.equal(a, b) for a, b in zip(store[i].x, alone.x, strict=True) if a is not None)


def test_strict_lifting_names_the_first_row(molecules):
    with pytest.raises(TableError, match=r"t.csv, row 3: SMILES 'C1C' does not parse: unclosed ring") as caught:
        lift_table(molecules, Rings(6), strict=True)
    assert caught.value.row == 3


def test_duplicates_are_reported_with_conflicts(molecules):
    with pytest.warns(LiftingWarning):
        _, kept = lift_table(molecules, None)
    assert kept.duplicates.groups == ((2, 6, 9), (4, 7))
    assert kept.duplicates.conflicting == 1  # benzene has one value and an empty one, which agree
    assert kept.notes[-1] == "2 molecules are there more than once, in 5 rows together; 1 with different targets"
    assert find_duplicates(molecules) == kept.duplicates
    with pytest.warns(LiftingWarning):
        _, unknown = lift_table(molecules, None, duplicates=False)
    assert unknown.duplicates is None


def test_a_table_without_duplicates_or_rejects_says_nothing(write):
    pytest.importorskip("rdkit")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        store, kept = lift_table(read_table(write("t.smi", "CCO\nC\n")), Rings(6))
    assert (len(store), store.y, kept.rejects, kept.notes[1:]) == (2, None, (), ())
    assert str(kept.duplicates) == "no molecule is there twice"


def test_the_wrong_column_is_noticed(write):
    pytest.importorskip("rdkit")
    table = read_table(write("t.csv", "smiles,name\nCCO,ethanol\nC,methane\n"), "name")
    with pytest.raises(TableError, match=r"no row has a molecule; row 2: SMILES 'ethanol' .* Is it the right column"):
        lift_table(table, Rings(6))
    with pytest.warns(LiftingWarning):
        store, kept = lift_table(table, Rings(6), allow_empty=True)
    assert len(store) == len(kept) == 0
    assert len(kept.rejects) == 2


def test_molecules_over_the_budget_are_among_the_rejects(write):
    pytest.importorskip("rdkit")
    table = read_table(write("t.csv", "smiles,y\nxyz,0\nCCO,1\nC12C3C4C1C5C2C3C45,2\nC,3\n"))
    with pytest.warns(LiftingWarning, match="2 rows were left out"):
        store, kept = lift_table(table, Rings(6, max_cells=2), on_budget="skip")
    assert kept.rows.tolist() == [3, 5]
    assert store.y.tolist() == [[1.0], [3.0]]
    assert [r.row for r in kept.rejects] == [2, 4]
    assert kept.rejects[1].reason.startswith("Rings(6, max_cells=2) exceeds max_cells=2")
    assert store.skipped == ()
    with pytest.raises(LiftingBudgetExceeded) as caught:
        lift_table(table, Rings(6, max_cells=2))
    assert caught.value.__notes__ == [f"It is in row 4 of {table.path}."]


def test_molecules_can_be_packed_in_another_way(write):
    chem = pytest.importorskip("cwnet.chem")
    pytest.importorskip("rdkit")
    from dataclasses import replace

    def pack(molecules, on_error):
        store = chem.pack_molecules(molecules, on_error=on_error)
        return replace(store, x=(store.x[0].float(), None))

    store, _ = lift_table(read_table(write("t.smi", "CCO\n")), Rings(6), pack=pack)
    assert store.x[0].dtype == torch.float32
    assert store.x[1] is None


def test_a_large_table_is_lifted_to_disk_piece_by_piece(write, tmp_path):
    pytest.importorskip("rdkit")
    path = write("t.csv", "smiles,y\n" + "".join(f"{'C' * (i % 7 + 1)},{i}\n" for i in range(50)))
    with StoreWriter(tmp_path / "store") as writer:
        for piece in iterate_table(path, chunk_rows=20):
            writer.append(lift_table(piece, Rings(6), duplicates=False)[0])
    assert open_store(tmp_path / "store").y[:, 0].tolist() == list(range(50))
