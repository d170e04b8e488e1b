"""Every benchmark loads with the published counts; stores are found again only where they are the right ones."""

import errno
import gzip
import re
import shutil
import subprocess
import sys
import warnings
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch

from cwnet import Cliques, Custom, Rings, wl
from cwnet.data import DatasetNotFoundError, StoreWarning, _datasets, info, load, names, open_store, prepare
from cwnet.data import _store_file as store_file
from cwnet.data._molecules import read_peptides_csv
from cwnet.errors import CwnetError
from tests.conftest import there


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("CWNET_CACHE", str(folder))
    return folder


@pytest.fixture
def no_network(monkeypatch):
    """No data set can be downloaded."""

    def fails(folder, options):
        raise OSError("no network")

    for name, source in list(_datasets._SOURCES.items()):
        if source.download is not None:
            monkeypatch.setitem(_datasets._SOURCES, name, replace(source, download=fails))


def means(store):
    return [cells / len(store) for cells in store.num_cells[:2]]


def sizes(split):
    return len(split.train), len(split.val), len(split.test)


def assert_parts(dataset, covered=None):
    """The parts of every split are positions of the store, and disjoint."""
    for split in dataset.splits:
        together = torch.cat([split.train, split.val, split.test])
        assert together.dtype == torch.int64
        assert len(together.unique()) == len(together) == (len(dataset.store) if covered is None else covered)
        assert int(together.max()) < len(dataset.store)


# ------------------------------------------------------------------------------------------------ published counts


def test_zinc(data):
    there(data / "ZINC" / "zinc12k_test.npz")
    zinc = load("zinc")
    assert (zinc.task, zinc.outputs, zinc.metric, zinc.store.lifting) == ("regression", 1, "mae", "Rings(18)")
    assert [sizes(split) for split in zinc.splits] == [(10_000, 1_000, 1_000)]
    assert_parts(zinc)
    train = zinc.store.select(zinc.splits[0].train)
    assert means(train) == pytest.approx([23.17, 49.86 / 2], abs=0.01)
    assert train[0].num_cells[:2] == (29, 32)
    assert float(train.y[0]) == pytest.approx(0.8350, abs=1e-4)
    assert zinc.store.y.shape == (12_000, 1)
    assert zinc.store.y.dtype == torch.float32
    assert zinc.store.x[0].shape == (zinc.store.num_cells[0], 1)
    assert int(zinc.store.x[0].max()) == 20  # of 28 types; the others are rare
    assert zinc.store.x[1].unique().tolist() == [1, 2, 3]


def test_zinc_full(data):
    there(data / "ZINC" / "zinc_full_train.npz")
    full = load("zinc-full", None)
    assert [sizes(split) for split in full.splits] == [(220_011, 24_445, 5_000)]
    split = full.splits[0]
    nodes, edges = (ptr.diff() for ptr in full.store.cell_ptr)
    train = [float(count[split.train].double().mean()) for count in (nodes, edges)]
    assert train == pytest.approx([23.16, 49.81 / 2], abs=0.01)
    # The first of each part, as benchmarking-gnns prints them (vertices, directed edges, target), and the extremes.
    for part, first, y, extremes in (
        (split.train, (33, 72), 3.0464, [6, 38]),
        (split.val, (21, 44), 2.0992, [6, 38]),
        (split.test, (24, 52), 3.1382, [8, 37]),
    ):
        assert (int(nodes[part[0]]), 2 * int(edges[part[0]])) == first
        assert float(full.store.y[part[0]]) == pytest.approx(y, abs=1e-4)
        assert [int(n) for n in nodes[part].aminmax()] == extremes
    assert int(full.store.x[0].max()) == 27


def test_molhiv(data):
    there(data / "ogbg-molhiv" / "molhiv_graphs.npz")
    hiv = load("molhiv")
    assert (hiv.task, hiv.outputs, hiv.metric, hiv.store.lifting) == ("binary", 1, "rocauc", "Rings(6)")
    assert sizes(hiv.splits[0]) == (32_901, 4_113, 4_113)
    assert_parts(hiv)
    split = hiv.splits[0]
    assert [int(hiv.store.y[part].sum()) for part in (split.train, split.val, split.test)] == [1_232, 81, 130]
    assert hiv.store.num_cells[:2] == (1_049_163, 2_259_376 // 2)
    assert [x.shape[1] for x in hiv.store.x[:2]] == [9, 3]
    assert hiv.store.y.shape == (41_127, 1)


#: graphs, classes, mean vertices, mean edges, features
TU = {
    "mutag": (188, 2, 17.93, 19.79, 7),
    "ptc": (344, 2, 25.56, 25.96, 19),
    "ptc-mr": (344, 2, 14.29, 14.69, 18),
    "proteins": (1_113, 2, 39.06, 72.82, 3),
    "nci1": (4_110, 2, 29.87, 32.30, 37),
    "nci109": (4_127, 2, 29.68, 32.13, 38),
    "imdb-b": (1_000, 2, 19.77, 96.53, 65),
    "imdb-m": (1_500, 3, 13.00, 65.94, 59),
    "reddit-b": (2_000, 2, 429.63, 497.75, 1),
}


@pytest.mark.parametrize("name", TU)
def test_tu(data, name):
    there(data / "TU")
    graphs, classes, nodes, edges, width = TU[name]
    tu = load(name, None if name == "reddit-b" else "default")  # its rings take seconds
    assert (tu.task, tu.outputs, tu.metric, len(tu.store)) == ("multiclass", classes, "accuracy", graphs)
    assert means(tu.store) == pytest.approx([nodes, edges], abs=0.006)
    assert tu.store.y.dtype == torch.int64
    assert tu.store.y.unique().tolist() == list(range(classes))
    x = tu.store.x[0]
    assert x.shape == (tu.store.num_cells[0], width)
    assert torch.equal(x.sum(1), torch.ones(len(x)))
    assert (x.sum(0) > 0).all()
    assert len(tu.splits) == 10
    assert_parts(tu)
    tested = torch.cat([split.test for split in tu.splits])
    assert len(tested.unique()) == len(tested) >= graphs - 9
    assert all(not len(split.val) for split in tu.splits)


def test_degrees_are_the_features_of_imdb(data):
    there(data / "TU" / "IMDBBINARY")
    store = load("imdb-b", None).store
    degrees = torch.bincount(store.batch().boundaries[0].idx, minlength=store.num_cells[0])
    column = store.x[0].argmax(1)
    assert len(torch.stack([degrees, column], 1).unique(dim=0)) == 65  # a bijection between degrees and columns


def test_csl(data):
    there(data / "CSL" / "splits_benchmarking_gnns")
    csl = load("csl")
    assert len(csl.store) == 150
    assert (csl.task, csl.outputs, csl.metric, csl.store.lifting) == ("multiclass", 10, "accuracy", "Rings(8)")
    assert set(csl.store.cell_ptr[0].diff().tolist()) == {41}
    degrees = torch.bincount(csl.store.batch().boundaries[0].idx)
    assert degrees.tolist() == [4] * 150 * 41
    assert [sizes(split) for split in csl.splits] == [(90, 30, 30)] * 5
    assert_parts(csl)
    for split in csl.splits:
        assert torch.bincount(csl.store.y[split.test]).tolist() == [3] * 10
    # The ten isomorphism classes are the targets. WL sees one class only.
    assert torch.equal(wl.classes(csl.store), csl.store.y)
    assert int(wl.classes(csl.store, test="wl").max()) == 0
    copies = [tuple(csl.store[i].boundaries[0].idx.tolist()) for i in range(15)]
    assert len(set(copies)) == 15, "copies are relabelled"


def test_csl_with_the_splits_of_the_paper(data):
    there(data / "CSL" / "splits")
    cwn = load("csl", splits="cwn")
    assert [sizes(split) for split in cwn.splits] == [(90, 30, 30)] * 5
    assert all(set(split.val.tolist()) == set(split.test.tolist()) for split in cwn.splits)
    assert torch.equal(cwn.store.boundaries[0].idx, load("csl").store.boundaries[0].idx)
    assert not torch.equal(cwn.store.boundaries[0].idx, load("csl", seed=1).store.boundaries[0].idx)


SR = {
    "sr16622": 2, "sr251256": 15, "sr261034": 10, "sr281264": 4, "sr291467": 41,
    "sr351668": 3854, "sr351899": 227, "sr361446": 180, "sr401224": 28,
}  # fmt: skip


@pytest.mark.parametrize("family", SR)
def test_sr(data, family):
    there(data / "SR_graphs")
    sr = load("sr", None, family=family)
    assert (sr.task, sr.outputs, sr.metric, len(sr.store)) == ("isomorphism", 0, "none", SR[family])
    assert sizes(sr.splits[0]) == (0, 0, SR[family])
    assert sr.store.x[0].unique().tolist() == [1]
    assert sr.store.x[1].unique().tolist() == [2]


def test_sr_rings_carry_their_length(data):
    there(data / "SR_graphs")
    sr = load("sr").store
    assert sr.x[2][:, 0].tolist() == sr.boundaries[1].sizes.tolist()
    # Induced cycles of Rook's 4x4 graph and of Shrikhande's; the paper's table.
    lengths = sorted([Counter(sr[i].x[2][:, 0].int().tolist()) for i in range(2)], key=lambda c: c[4])
    assert lengths == [{3: 32, 4: 12, 5: 96, 6: 64}, {3: 32, 4: 36, 6: 96}]


def test_peptides(data):
    path = there(data / "peptides-func" / "peptide_multi_class_dataset.csv.gz")
    smiles, labels = read_peptides_csv(path)
    assert labels.shape == (15_535, 10)
    assert set(np.unique(labels)) == {0, 1}
    # Counted in the text, without RDKit: an atom is a bracket or a letter, a ring bond is a digit that comes twice.
    atoms = [len(re.findall(r"\[[^]]+\]|Br|Cl|[BCNOPSFIbcnops]", text)) for text in smiles]
    outside = [re.sub(r"\[[^]]+\]", "", text) for text in smiles]
    rings = [len(re.findall(r"%\d\d|\d", text)) / 2 for text in outside]
    bonds = [a - 1 - text.count(".") + r for a, text, r in zip(atoms, outside, rings, strict=True)]
    assert np.mean(atoms) == pytest.approx(150.94, abs=0.01)
    assert 2 * np.mean(bonds) == pytest.approx(307.30, abs=0.01)


def test_peptides_are_featurised(data, tmp_path, monkeypatch):
    pytest.importorskip("rdkit")
    full = there(data / "peptides-func" / "peptide_multi_class_dataset.csv.gz")
    smiles, labels = read_peptides_csv(full)
    folder = tmp_path / "data" / "peptides-func"
    folder.mkdir(parents=True)
    rows = [f'{i},{s},x,"{[int(v) for v in y]}",{i}' for i, (s, y) in enumerate(zip(smiles[:40], labels, strict=False))]
    text = "\r\n".join([",smiles,peptide_seq,labels,identifier", *rows])
    (folder / full.name).write_bytes(gzip.compress(text.encode("utf-8-sig")))
    for part, positions in (("train", range(30)), ("val", range(30, 35)), ("test", range(35, 40))):
        (folder / f"split_{part}.txt").write_text("\n".join(map(str, positions)))
    monkeypatch.setenv("CWNET_DATA", str(tmp_path / "data"))
    peptides = load("peptides-func")
    assert (peptides.task, peptides.outputs, peptides.metric) == ("multilabel", 10, "ap")
    assert sizes(peptides.splits[0]) == (30, 5, 5)
    assert torch.equal(peptides.store.y, torch.from_numpy(labels[:40]))
    assert [x.shape[1] for x in peptides.store.x[:2]] == [9, 3]
    assert "rdkit" in peptides.about


def test_peptides_splits(data):
    there(data / "peptides-func" / "split_train.txt")
    raw = _datasets._look_up(_datasets._source("peptides-func"), {}, data)
    (split,) = _datasets._source("peptides-func").split(raw, 15_535)
    assert sizes(split) == (10_873, 2_331, 2_331)
    assert len(split) == 15_535


def test_nci(monkeypatch):
    pytest.importorskip("rdkit")
    from cwnet import chem
    from cwnet.chem._features import penalised_logp

    some = chem.nci_smiles()[:99]
    monkeypatch.setattr(chem, "nci_smiles", lambda: [*some, "not a molecule"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nci = load("nci")
    assert (nci.task, nci.outputs, nci.metric, nci.store.lifting) == ("regression", 1, "mae", "Rings(18)")
    assert len(nci.store) == 99
    assert [x.shape[1] for x in nci.store.x[:2]] == [9, 3]
    assert nci.store.y[:, 0].tolist() == pytest.approx([penalised_logp(m) for m in chem.read_smiles(some)], rel=1e-6)
    assert sizes(nci.splits[0]) == (79, 10, 10)
    assert_parts(nci)
    assert load("nci").splits == nci.splits


@pytest.mark.parametrize("k", [3, 10, 11])
def test_ring_transfer(k):
    rings = load("ring-transfer", k=k, num_train=50, num_val=10, num_test=20)
    store = rings.store
    assert (rings.task, rings.outputs, rings.metric, store.lifting) == ("cells", 5, "accuracy", f"Rings({k})")
    assert [sizes(split) for split in rings.splits] == [(50, 10, 20)]
    assert store.num_cells == (80 * k, 80 * k, 80)
    for part in (rings.splits[0].train, rings.splits[0].val, rings.splits[0].test):
        assert torch.bincount(store.y[part]).tolist() == [len(part) // 5] * 5
    for ring in store:
        answer = ring.cell_y[0]
        (target,) = (answer >= 0).nonzero().flatten().tolist()
        (source,) = (ring.x[0].sum(1) == 1).nonzero().flatten().tolist()
        assert ring.x[0][target].tolist() == [0] * 5
        assert int(ring.x[0][source].argmax()) == int(answer[target]) == int(ring.y)
        assert int((ring.x[0] == 1).all(1).sum()) == k - 2
        (around,) = ring.cells(2)
        steps = abs(around.index(source) - around.index(target))
        assert min(steps, k - steps) == k // 2
    assert store.cell_y[1] is None


def test_ring_transfer_has_5000_rings_to_train_on():
    rings = load("ring-transfer", None)
    assert sizes(rings.splits[0]) == (5_000, 500, 500)
    assert len(rings.store.boundaries[0].idx.reshape(6_000, -1).unique(dim=0)) > 5_900, "rings are relabelled"


# ------------------------------------------------------------------------------------------------ the cache


@pytest.fixture
def mutag(data, tmp_path, monkeypatch):
    """A copy of MUTAG that can be tampered with."""
    copy = tmp_path / "data"
    shutil.copytree(there(data / "TU" / "MUTAG"), copy / "TU" / "MUTAG", copy_function=shutil.copyfile)
    monkeypatch.setenv("CWNET_DATA", str(copy))
    return copy / "TU" / "MUTAG"


def stores(cache):
    return sorted(cache.glob("stores/[!.]*"))


def writes(monkeypatch):
    """What is written from now on."""
    seen = []
    real = store_file.save_store
    monkeypatch.setattr(store_file, "save_store", lambda *args, **kwargs: seen.append(args) or real(*args, **kwargs))
    return seen


def same(a, b):
    return list(a.store) == list(b.store) and a.splits == b.splits and a.store.lifting == b.store.lifting


def test_a_store_is_made_once(mutag, cache, monkeypatch):
    written = writes(monkeypatch)
    first = load("mutag")
    again = load("MUTAG")
    assert len(written) == 1
    assert same(first, again)
    (folder,) = stores(cache)
    assert folder.name.startswith("mutag--rings-6--")
    assert again.about["store"] == str(folder)
    assert again.about["files"] == first.about["files"]
    load("mutag", rebuild=True)
    assert len(written) == 2
    assert stores(cache) == [folder]


def test_prepare_then_load(mutag, monkeypatch):
    assert prepare("mutag", "cliques:3") is None
    written = writes(monkeypatch)
    assert load("mutag", Cliques(3)).store.lifting == "Cliques(3)"
    assert not written


def test_another_lifting_is_another_store(mutag, cache):
    assert load("mutag").store.lifting == "Rings(6)"
    assert load("mutag", Rings(5)).store.lifting == "Rings(5)"
    assert load("mutag", Rings(6, max_cells=1_000)).store.lifting == "Rings(6, max_cells=1000)"
    assert load("mutag", None).store.lifting == "None"
    assert len(stores(cache)) == 4


def test_another_input_is_another_store(mutag, cache):
    before = load("mutag")
    text = get_text(mutag)
    assert text.startswith(b"188\n23 2\n2 2")
    put_text(mutag, b"188\n23 2\n1 2" + text[len(b"188\n23 2\n2 2") :])
    after = load("mutag")
    assert not torch.equal(before.store.x[0], after.store.x[0])
    assert len(stores(cache)) == 2


def get_text(folder):
    return gzip.decompress((folder / "MUTAG.txt.gz").read_bytes())


def put_text(folder, text):
    (folder / "MUTAG.txt.gz").write_bytes(gzip.compress(text))


def test_another_split_file_is_another_input(mutag, monkeypatch):
    before = load("mutag")
    file = mutag / "10fold_idx" / "test_idx-1.txt"
    file.write_text("\n".join(file.read_text().split()[:-1]))
    after = load("mutag")
    assert len(after.splits[0].test) == len(before.splits[0].test) - 1


def test_another_schema_is_another_store(mutag, cache, monkeypatch):
    load("mutag")
    monkeypatch.setattr(store_file, "SCHEMA_VERSION", store_file.SCHEMA_VERSION + 1)
    written = writes(monkeypatch)
    load("mutag")
    assert len(written) == 1
    assert len(stores(cache)) == 2


def test_another_reader_is_another_store(mutag, cache, monkeypatch):
    load("mutag")
    newer = replace(_datasets._SOURCES["mutag"], version=2)
    monkeypatch.setitem(_datasets._SOURCES, "mutag", newer)
    load("mutag")
    assert len(stores(cache)) == 2


@pytest.mark.parametrize("changed", ["lifting", "input", "schema"])
def test_a_store_in_the_wrong_place_is_not_used(mutag, cache, changed, monkeypatch):
    """Even if someone puts another store under the name of this one."""
    right = load("mutag")
    (folder,) = stores(cache)
    manifest = store_file.read_manifest(folder)
    if changed == "schema":
        monkeypatch.setattr(store_file, "SCHEMA_VERSION", 99)
    wrong = replace(right.store.select([0]), lifting="Rings(7)" if changed == "lifting" else right.store.lifting)
    store_file.save_store(wrong, folder, input_hash="other" if changed == "input" else manifest.input)
    monkeypatch.undo()
    monkeypatch.setenv("CWNET_DATA", str(mutag.parent.parent))
    with pytest.warns(StoreWarning, match="another lifting, input or schema"):
        again = load("mutag", cache=cache)
    assert same(again, right)


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


DAMAGE = {
    "flipped": lambda folder: flip(next(folder.glob("*.arrow"))),
    "cut off": lambda folder: (p := next(folder.glob("*.arrow"))).write_bytes(p.read_bytes()[:-100]),
    "missing": lambda folder: next(folder.glob("*.arrow")).unlink(),
    "manifest flipped": lambda folder: flip(folder / "manifest.json"),
    "manifest empty": lambda folder: (folder / "manifest.json").write_text(""),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_store_is_reported_and_rebuilt(mutag, cache, damage):
    whole = load("mutag")
    whole = replace(whole, store=whole.store.select(slice(None)))  # a copy, off the file
    (folder,) = stores(cache)
    DAMAGE[damage](folder)
    with pytest.warns(StoreWarning, match=re.escape(folder.name)):
        again = load("mutag")
    assert same(again, whole)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert same(load("mutag"), whole)


def test_a_store_without_manifest_is_none(mutag, cache):
    whole = load("mutag")
    (folder,) = stores(cache)
    (folder / "manifest.json").unlink()
    assert same(load("mutag"), whole)
    assert (folder / "manifest.json").exists()


def test_a_failed_rewrite_leaves_the_old_store(mutag, cache, monkeypatch):
    whole = load("mutag")

    def full(path, batch):
        path.write_bytes(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(store_file, "_write_file", full)
        with pytest.raises(OSError, match="No space left"):
            prepare("mutag", rebuild=True)
        with pytest.warns(StoreWarning, match="No space left"):
            assert same(load("mutag", rebuild=True), whole)
    (folder,) = stores(cache)
    assert sum(1 for _ in folder.iterdir()) == 2
    assert list(open_store(folder)) == list(whole.store)


def test_a_cache_that_can_not_be_written_is_reported(mutag, tmp_path):
    blocked = tmp_path / "blocked"
    blocked.write_text("a file, not a folder")
    with pytest.warns(StoreWarning, match="could not be written"):
        assert len(load("mutag", cache=blocked).store) == 188
    with pytest.raises(OSError, match="blocked"):
        prepare("mutag", cache=blocked)


def test_liftings_by_functions_are_not_kept(cache):
    rule = Custom(lambda graph: [], name="nothing")
    rings = load("ring-transfer", rule, k=4, num_train=5, num_val=0, num_test=0)
    assert rings.store.lifting == "nothing"
    assert rings.about["store"] is None
    assert stores(cache) == []


def test_two_processes_at_once(data, cache):
    """Both prepare again and again; both succeed, and what they leave is whole."""
    there(data / "TU" / "PTC")
    code = (
        "from cwnet.data import load\n"
        "import sys, warnings; warnings.simplefilter('error')\n"
        "for i in range(6): assert len(load('ptc', rebuild=i % 2 == 1).store) == 344\n"
    )
    processes = [subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate(timeout=120)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], said
    (folder,) = stores(cache)
    assert sorted(path.suffix for path in folder.iterdir()) == [".arrow", ".json"]
    assert len(open_store(folder, verify=True)) == 344


def test_the_second_process_waits_for_the_first(mutag, cache, monkeypatch):
    """While this process makes a store, another one wants it too: it finds it made."""
    code = "from cwnet.data import load; print(len(load('mutag').store))"
    built = _datasets._build
    others = []

    def build(*args):
        others.append(subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True))
        return built(*args)

    monkeypatch.setattr(_datasets, "_build", build)
    load("mutag")
    assert others[0].communicate(timeout=60)[0] == "188\n"
    (folder,) = stores(cache)
    assert len(list(folder.glob("*.arrow"))) == 1


# ------------------------------------------------------------------------------------------------ what users get wrong


def test_missing_files_are_named(tmp_path, monkeypatch, cache, no_network):
    monkeypatch.setenv("CWNET_DATA", str(tmp_path))
    with pytest.raises(DatasetNotFoundError) as caught:
        load("zinc")
    assert isinstance(caught.value, CwnetError)
    message = str(caught.value)
    assert "ZINC/zinc12k_train.npz, ZINC/zinc12k_val.npz, ZINC/zinc12k_test.npz" in message
    assert str(tmp_path) in message
    assert str(cache / "raw") in message
    assert "no network" in message
    assert "https://" in message


def test_missing_files_without_any_folder(monkeypatch, no_network):
    monkeypatch.delenv("CWNET_DATA", raising=False)
    with pytest.raises(DatasetNotFoundError, match=r"which is not set.*TU/PTC/PTC.txt.gz"):
        load("ptc")
    with pytest.raises(DatasetNotFoundError, match=r"train_idx-1.txt.* \(21 files\); or TU/MUTAG/raw/MUTAG_A.txt"):
        load("mutag")


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("CWNET_DATA", str(tmp_path))
    monkeypatch.setitem(sys.modules, "ogb.graphproppred", None)
    monkeypatch.setitem(sys.modules, "ogb", None)
    with pytest.raises(DatasetNotFoundError, match=r"ogb.* is needed: pip install cwnet\[pyg\]"):
        load("molhiv")


def test_raw_files_are_found_in_the_cache(data, cache, monkeypatch):
    source = there(data / "TU" / "MUTAG")
    shutil.copytree(source, cache / "raw" / "TU" / "MUTAG", copy_function=shutil.copyfile)
    monkeypatch.delenv("CWNET_DATA")
    assert len(load("mutag").store) == 188
    assert info("mutag").files[0] == cache / "raw" / "TU" / "MUTAG" / "MUTAG.txt.gz"


def test_names_and_options_are_checked():
    with pytest.raises(ValueError, match=r"'zink'. Did you mean 'zinc'\?"):
        load("zink")
    with pytest.raises(TypeError, match=r"'zinc' has no option 'subset'; its options and their defaults: none"):
        load("zinc", subset=True)
    with pytest.raises(TypeError, match="family='sr16622'"):
        load("sr", k=6)
    with pytest.raises(ValueError, match=r"family='sr9' is not one of 'sr16622'"):
        load("sr", family="sr9")
    with pytest.raises(ValueError, match="splits='mine' is not one of"):
        load("csl", splits="mine")
    with pytest.raises(ValueError, match="k=2: give 3 or more"):
        load("ring-transfer", k=2)
    with pytest.raises(TypeError, match=r"k='10': give a whole number"):
        load("ring-transfer", k="10")
    with pytest.raises(ValueError, match="can not read the lifting"):
        load("ring-transfer", "rings")


def test_options_are_the_same_in_any_type_of_number(cache):
    load("ring-transfer", k=5, num_train=5, num_val=0, num_test=0)
    load("ring-transfer", k=np.int32(5), num_train=np.int64(5), num_val=0, num_test=0)
    assert len(stores(cache)) == 1


def test_info(data, cache, monkeypatch):
    there(data / "ZINC" / "zinc12k_train.npz")
    known = info("zinc")
    assert (known.task, known.metric, known.outputs, known.lifting) == ("regression", "mae", 1, Rings(18))
    assert known.files[0] == data / "ZINC" / "zinc12k_train.npz"
    assert known.missing == ()
    assert known.prepared == ()
    monkeypatch.delenv("CWNET_DATA")
    assert info("zinc").missing[0] == "ZINC/zinc12k_train.npz"
    assert info("ring-transfer", k=7).lifting == Rings(7)
    load("ring-transfer", None, k=4, num_train=5, num_val=0, num_test=0)
    assert info("ring-transfer").prepared == tuple(stores(cache))


def test_every_source_has_its_facts():
    assert {"zinc", "zinc-full", "molhiv", "peptides-func", "nci", "csl", "sr", "ring-transfer"} <= set(names())
    assert set(TU) <= set(names())
    for name in names():
        known = info(name)
        assert known.title
        assert known.citation
        assert known.home.startswith("https://")


def test_repr(mutag):
    assert repr(load("mutag")) == (
        "Dataset(mutag: ComplexStore(188 complexes: 3,371 vertices, 3,721 edges, 538 2-cells, Rings(6)), "
        "Split(170 train, 0 val, 18 test) x 10, multiclass, accuracy)"
    )
