"""Readers of raw files: what they make of bad ones, and that downloads give the same graphs."""

import gzip
import io
import sys
import urllib.request
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch

from cwnet.data import GraphFileError, _datasets, load
from cwnet.data import _molecules as molecules
from cwnet.data._source import whole_numbers
from cwnet.data._tu import parse_gin
from cwnet.errors import CwnetError
from tests.conftest import there

PATH = Path("graphs.txt")
#: A triangle with a tail, tags 7 and 3; and a single vertex.
GIN = "2\n4 1\n7 2 1 2\n3 2 0 2\n7 3 0 1 3\n7 1 2\n1 -1\n3 0\n"


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("CWNET_CACHE", str(folder))
    return folder


@pytest.mark.parametrize("text", [GIN, GIN.replace("\n", "\r\n"), GIN[:-1], GIN + "\n\n", GIN.replace(" ", "  ")])
def test_gin_text(text):
    packed = parse_gin(text, PATH)
    assert packed.num_nodes.tolist() == [4, 1]
    assert packed.labels.tolist() == [1, -1]
    assert packed.tags.tolist() == [7, 3, 7, 7, 3]
    assert packed.graph.tolist() == [0, 0, 0, 0]
    assert packed.ends.tolist() == [[0, 1], [0, 2], [1, 2], [2, 3]]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "line 1: the first line is not the number of graphs"),
        ("a b\n", "can not be read"),
        (GIN.replace("2\n4", "3\n4"), "line 9: graph 2 of 3 does not start with"),
        (GIN.replace("2\n4", "1\n4"), "1 graphs take 6 lines, and there are 8"),
        (GIN.replace("7 2 1 2", "7 3 1 2"), "line 3: a vertex is not 'tag degree neighbours'"),
        (GIN.replace("7 1 2\n", "7\n"), "line 6: a vertex is not"),
        ("1\n2 0\n7\n-1 0\n", "line 3: a vertex is not"),
        (GIN.replace("7 1 2\n", "7 1 0\n"), "not listed from both of its ends"),
        (GIN.replace("7 1 2\n", "7 1 3\n"), "not listed from both of its ends, or is a loop"),
        (GIN.replace("7 1 2\n", "7 1.5 2\n"), "can not be read"),
    ],
)
def test_bad_gin_text(text, says):
    with pytest.raises(GraphFileError, match=says):
        parse_gin(text, PATH)


def test_whole_numbers():
    assert whole_numbers("1,2 -3\n4\r\n", PATH).tolist() == [1, 2, -3, 4]
    assert whole_numbers("", PATH).tolist() == []


def put(folder, files):
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())


def folds(train, test):
    return {
        f"TU/MUTAG/10fold_idx/{part}_idx-{i}.txt": "\n".join(map(str, positions))
        for part, positions in (("train", train), ("test", test))
        for i in range(1, 11)
    }


def test_labels_and_tags_are_numbered_by_first_appearance(tmp_path, monkeypatch):
    put(tmp_path, {"TU/MUTAG/MUTAG.txt.gz": gzip.compress(GIN.encode()), **folds([0], [1])})
    monkeypatch.setenv("CWNET_DATA", str(tmp_path))
    tiny = load("mutag")
    assert tiny.store.y.tolist() == [0, 1]
    assert tiny.store.x[0].tolist() == [[1, 0], [0, 1], [1, 0], [1, 0], [0, 1]]
    assert tiny.store.num_cells == (5, 4, 1)


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({"TU/MUTAG/MUTAG.txt.gz": b"not gzip"}, r"MUTAG.txt.gz: can not be read"),
        ({"TU/MUTAG/MUTAG.txt.gz": gzip.compress(GIN.encode(), mtime=0)[:-9]}, r"MUTAG.txt.gz: can not be read"),
        (folds([0], [2]), r"test_idx-1.txt: it names graph 2, but there are 2"),
        (folds([0, 0], [1]), r"train_idx-1.txt: it names a graph twice"),
        (folds([0], [0]), r"graph 0 is in train and in test"),
        (folds(["x"], [1]), r"train_idx-1.txt: can not be read"),
    ],
)
def test_broken_files_are_named(tmp_path, monkeypatch, files, says):
    put(tmp_path, {"TU/MUTAG/MUTAG.txt.gz": gzip.compress(GIN.encode()), **folds([0], [1]), **files})
    monkeypatch.setenv("CWNET_DATA", str(tmp_path))
    with pytest.raises(CwnetError, match=says):
        load("mutag")


def test_a_broken_npz_is_named(tmp_path, monkeypatch):
    put(tmp_path, {f"ZINC/zinc12k_{part}.npz": b"PK not a zip" for part in ("train", "val", "test")})
    monkeypatch.setenv("CWNET_DATA", str(tmp_path))
    with pytest.raises(GraphFileError, match=r"zinc12k_train.npz: can not be read"):
        load("zinc")
    with open(tmp_path / "ZINC/zinc12k_train.npz", "wb") as file:
        np.savez(file, num_nodes=[1])
    with pytest.raises(GraphFileError, match=r"zinc12k_train.npz: there is no array .*num_edges"):
        load("zinc")


def test_a_family_that_is_not_regular_is_refused(tmp_path, monkeypatch):
    put(tmp_path, {"SR_graphs/sr16622.g6": "Bw\n"})
    monkeypatch.setenv("CWNET_DATA", str(tmp_path))
    with pytest.raises(GraphFileError, match=r"graph 0 does not have 16 vertices of degree 6"):
        load("sr")


# ------------------------------------------------------------------------------------------------ downloads


def as_tudataset(store, name, labels, tags):
    """The files of TUDataset for graphs that are here."""
    batch = store.batch()
    first, second = (batch.boundaries[0].idx.reshape(-1, 2) + 1).T.tolist()
    pairs = sorted([*zip(first, second, strict=True), *zip(second, first, strict=True)])
    graph = torch.repeat_interleave(torch.arange(len(store)), store.cell_ptr[0].diff()) + 1
    columns = {
        "A": [f"{a}, {b}" for a, b in pairs],
        "graph_indicator": graph.tolist(),
        "graph_labels": labels.tolist(),
        "node_labels": tags.tolist(),
    }
    return {f"{name}_{kind}.txt": "\n".join(map(str, rows)) + "\n" for kind, rows in columns.items()}


def test_tu_download(data, monkeypatch, tmp_path, cache):
    """PyG's TUDataset brings other files than GIN: the graphs are the same."""
    datasets = pytest.importorskip("torch_geometric.datasets")
    there(data / "TU" / "MUTAG")
    gin = load("mutag")
    files = as_tudataset(gin.store, "MUTAG", 1 - 2 * gin.store.y, gin.store.x[0].argmax(1) + 5)

    class Fake:
        def __init__(self, root, name):
            self.raw_dir = str(Path(root) / name / "raw")
            put(Path(self.raw_dir), files)

    monkeypatch.setattr(datasets, "TUDataset", Fake)
    monkeypatch.setenv("CWNET_DATA", str(tmp_path / "empty"))
    raw = load("mutag")
    assert torch.equal(raw.store.y, gin.store.y)
    assert torch.equal(raw.store.x[0], gin.store.x[0])
    assert torch.equal(raw.store.cell_ptr[0], gin.store.cell_ptr[0])
    edges = [{tuple(sorted(edge)) for edge in d.store.batch().boundaries[0].tolist()} for d in (raw, gin)]
    assert edges[0] == edges[1]
    assert len(raw.splits) == 10
    assert sorted(torch.cat([split.test for split in raw.splits]).tolist()) == list(range(188))
    for split in raw.splits:
        assert abs(float(gin.store.y[split.test].float().mean() - gin.store.y.float().mean())) < 0.06
    assert sorted(path.name for path in (cache / "raw").iterdir()) == ["TU"], "nothing else is left behind"


def as_pyg(store):
    """What PyG's InMemoryDataset holds of graphs that are here."""
    pyg = pytest.importorskip("torch_geometric.data")
    graphs = []
    for graph in store:
        ends = graph.boundaries[0].idx.reshape(-1, 2).long()
        both = torch.cat([ends, ends.flip(1)])
        order = (both[:, 0] * 1000 + both[:, 1]).argsort()
        features = torch.cat([graph.x[1], graph.x[1]])[order]
        graphs.append(
            pyg.Data(
                x=graph.x[0].long(),
                edge_index=both[order].T.contiguous(),
                edge_attr=features.long().squeeze(-1) if features.shape[1] == 1 else features.long(),
                y=graph.y if len(graph.y) == 1 else graph.y[None],
            )
        )
    collated, slices = pyg.InMemoryDataset.collate(graphs)
    return SimpleNamespace(_data=collated, slices=slices)


@pytest.fixture
def parts(data):
    """Ten graphs of each part of ZINC, without rings."""
    there(data / "ZINC" / "zinc12k_train.npz")
    zinc = load("zinc", None)
    split = zinc.splits[0]
    names = ("train", "val", "test")
    return {
        name: zinc.store.select(part[:10])
        for name, part in zip(names, (split.train, split.val, split.test), strict=True)
    }


def test_zinc_download(parts, monkeypatch, tmp_path):
    datasets = pytest.importorskip("torch_geometric.datasets")
    asked = []

    def fake(root, subset, split):
        asked.append(subset)
        return as_pyg(parts[split])

    monkeypatch.setattr(datasets, "ZINC", fake)
    monkeypatch.setenv("CWNET_DATA", str(tmp_path / "empty"))
    zinc = load("zinc", None)
    assert asked == [True] * 3
    assert list(zinc.store) == [graph for part in parts.values() for graph in part]
    assert [len(part) for part in (zinc.splits[0].train, zinc.splits[0].val, zinc.splits[0].test)] == [10] * 3
    assert len(load("zinc-full", None).store) == 30
    assert asked == [True] * 3 + [False] * 3


def test_peptides_download(data, parts, monkeypatch, tmp_path):
    datasets = pytest.importorskip("torch_geometric.datasets")
    there(data / "ogbg-molhiv" / "molhiv_graphs.npz")
    some = load("molhiv", None).store.select(slice(0, 30))
    by_part = dict(zip(parts, (some.select(slice(i, i + 10)) for i in (0, 10, 20)), strict=True))
    monkeypatch.setattr(datasets, "LRGBDataset", lambda root, name, split: as_pyg(by_part[split]))
    monkeypatch.setenv("CWNET_DATA", str(tmp_path / "empty"))
    peptides = load("peptides-func", None)
    assert torch.equal(peptides.store.x[0], some.x[0])
    assert peptides.store.num_cells == some.num_cells
    assert torch.equal(peptides.store.y, some.y)
    assert peptides.splits[0].val.tolist() == list(range(10, 20))
    assert "rdkit" not in peptides.about, "features come with the download"


def test_molhiv_download(data, monkeypatch, tmp_path):
    there(data / "ogbg-molhiv" / "molhiv_graphs.npz")
    some = load("molhiv", None).store.select(slice(0, 20))
    graphs = []
    for graph in some:
        ends = graph.boundaries[0].idx.reshape(-1, 2).numpy()
        both = np.stack([ends, ends[:, ::-1]], 1).reshape(-1, 2)  # OGB lists (i, j), (j, i)
        graphs.append(
            {
                "num_nodes": graph.num_cells[0],
                "edge_index": both.T,
                "edge_feat": graph.x[1].numpy().repeat(2, axis=0).astype(np.int64),
                "node_feat": graph.x[0].numpy().astype(np.int64),
            }
        )
    split = {"train": np.arange(10), "valid": np.arange(10, 15), "test": np.arange(15, 20)}

    class Fake:
        def __init__(self, name, root):
            assert name == "ogbg-molhiv"
            self.graphs, self.labels = graphs, some.y.numpy().astype(np.int64)

        def get_idx_split(self):
            return split

    module = ModuleType("ogb.graphproppred")
    module.GraphPropPredDataset = Fake
    monkeypatch.setitem(sys.modules, "ogb", ModuleType("ogb"))
    monkeypatch.setitem(sys.modules, "ogb.graphproppred", module)
    monkeypatch.setenv("CWNET_DATA", str(tmp_path / "empty"))
    hiv = load("molhiv", None)
    assert list(hiv.store) == list(some)
    assert hiv.splits[0].val.tolist() == list(range(10, 15))


def test_plain_files_are_downloaded(data, monkeypatch, tmp_path):
    """CSL's splits and the SR families come from GitHub as they are."""
    home = {"CSL_": "CSL/splits_benchmarking_gnns", "sr": "SR_graphs"}
    there(data / "SR_graphs")
    asked = []

    def opened(url, timeout):
        asked.append(url)
        name = url.rpartition("/")[2]
        folder = next(folder for start, folder in home.items() if name.startswith(start))
        return io.BytesIO((data / folder / name).read_bytes())

    monkeypatch.setattr(urllib.request, "urlopen", opened)
    monkeypatch.setenv("CWNET_DATA", str(tmp_path / "empty"))
    assert len(load("csl", None).splits) == 5
    assert len(load("sr", None, family="sr281264").store) == 4
    load("sr", None, family="sr281264")
    assert len(asked) == 4
    assert all(url.startswith("https://raw.githubusercontent.com/") for url in asked)


def test_a_download_that_brings_nothing_is_told(monkeypatch, tmp_path):
    source = replace(_datasets._SOURCES["sr"], download=lambda folder, options: None)
    monkeypatch.setitem(_datasets._SOURCES, "sr", source)
    monkeypatch.setenv("CWNET_DATA", str(tmp_path / "empty"))
    with pytest.raises(_datasets.DatasetNotFoundError, match=r"did not bring its files.*SR_graphs/sr16622.g6"):
        load("sr")


def test_wide_categories_stay_wide():
    assert molecules._narrow(np.array([0, 255])).dtype == np.uint8
    assert molecules._narrow(np.array([0, 256])).dtype == np.int64
    assert molecules._narrow(np.array([-1])).dtype == np.int64
