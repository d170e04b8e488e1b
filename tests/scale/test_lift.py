"""Tables to stores: what is written, what is left out, and that nothing is done twice."""

import csv
import gzip
import json
import os
import signal
import subprocess
import sys
import time

import pytest
import torch

from cwnet.chem import Featuriser
from cwnet.data import _sharded, open_sharded, open_store, read_manifest, save_store
from cwnet.data._store_file import open_smiles
from cwnet.errors import CwnetError
from cwnet.scale import _lift, find_duplicates, find_tables, lift_files
from cwnet.scale._duplicates import without_duplicates
from cwnet.scale._inputs import count_rows
from tests.cli.test_wl import refused, said
from tests.scale.conftest import MOLECULES, contents


def rejects(store):
    with open(store / "rejects.csv", newline="") as file:
        return list(csv.DictReader(file))


class TestStore:
    def test_it_holds_the_molecules_in_order(self, tables, tmp_path):
        made = lift_files([tables], tmp_path / "s", shard_rows=16, target_columns=["number"])
        assert (made.complexes, made.rejected, made.shards, made.reused) == (78, 2, 6, 0)
        store = open_store(tmp_path / "s")
        numbers = [i for i in range(80) if i not in (13, 50)]
        assert store.y.flatten().tolist() == numbers
        expected = Featuriser()([MOLECULES[i % 7] for i in numbers])
        assert store.num_cells == expected.num_cells
        assert all(torch.equal(a, b) for a, b in zip(store.x[:2], expected.x[:2], strict=True))
        assert [shard["count"] for shard in read_manifest(tmp_path / "s").shards] == [15, 16, 8, 16, 16, 7]
        assert store.lifting == "Rings(18)"

    def test_what_is_left_out_is_listed(self, tables, tmp_path):
        lift_files([tables], tmp_path / "s", shard_rows=16)
        first, second = rejects(tmp_path / "s")
        assert (first["file"], first["row"], first["text"]) == ("a.csv", "15", "no molecule")
        assert "does not parse" in first["reason"]
        assert (second["file"], second["row"]) == ("b.csv.gz", "12")
        assert "6 fields, and there are 3 columns" in second["reason"]

    def test_a_molecule_over_the_budget_costs_its_row_only(self, tmp_path):
        """A grid has so many rings that the budget of a molecule is exceeded."""
        (tmp_path / "a.smi").write_text("CCO\n" + grid(13) + "\nCCN\n")
        made = lift_files([tmp_path / "a.smi"], tmp_path / "s")
        assert (made.complexes, made.rejected) == (2, 1)
        (row,) = rejects(tmp_path / "s")
        assert row["row"] == "2"
        assert "cells" in row["reason"]

    def test_names_of_inputs(self, tables, tmp_path):
        assert [file.name for file in find_tables([tables])] == ["a.csv", "b.csv.gz"]
        assert [file.name for file in find_tables([str(tables / "*.gz")])] == ["b.csv.gz"]
        assert [count_rows(file) for file in find_tables([tables])] == [41, 41]
        (tmp_path / "empty").mkdir()
        for bad, problem in (("nowhere.csv", "no such file"), (tmp_path / "empty", "no table in this folder")):
            with pytest.raises(CwnetError, match=problem):
                find_tables([bad])
        with pytest.raises(CwnetError, match="is given twice"):
            find_tables([tables, tables / "a.csv"])


def grid(n):
    """A square grid of n by n carbons, as SMILES. Its induced cycles of at most 18 atoms are very many."""
    from rdkit import Chem

    mol = Chem.RWMol()
    for _ in range(n * n):
        mol.AddAtom(Chem.Atom(6))
    for i in range(n):
        for j in range(n):
            if j + 1 < n:
                mol.AddBond(i * n + j, i * n + j + 1, Chem.BondType.SINGLE)
            if i + 1 < n:
                mol.AddBond(i * n + j, (i + 1) * n + j, Chem.BondType.SINGLE)
    return Chem.MolToSmiles(mol)


class TestGoingOn:
    def test_only_what_is_missing_is_done(self, tables, tmp_path, monkeypatch):
        lift_files([tables], tmp_path / "whole", shard_rows=16)
        real, done = _lift._lifted, []

        def fail_at_third(featuriser, max_cells, smiles, y):
            if len(done) == 3:
                raise KeyboardInterrupt
            done.append(len(smiles))
            return real(featuriser, max_cells, smiles, y)

        monkeypatch.setattr(_lift, "_lifted", fail_at_third)
        with pytest.raises(KeyboardInterrupt):
            lift_files([tables], tmp_path / "s", shard_rows=16)
        with pytest.raises(FileNotFoundError, match="is not a store"):
            open_store(tmp_path / "s")
        done.clear()
        monkeypatch.setattr(_lift, "_lifted", lambda *a: (done.append(1), real(*a))[1])
        made = lift_files([tables], tmp_path / "s", shard_rows=16)
        assert (len(done), made.reused) == (3, 3)
        assert contents(tmp_path / "s") == contents(tmp_path / "whole")
        done.clear()
        again = lift_files([tables], tmp_path / "s", shard_rows=16)
        assert (done, again.reused, again.complexes) == ([], 6, 78)

    def test_other_content_of_the_same_size_is_another_input(self, tmp_path):
        table = tmp_path / "a.smi"
        table.write_text("CCO\nCCN\n")
        lift_files([table], tmp_path / "s")
        assert lift_files([table], tmp_path / "s").reused == 1
        table.write_text("CCO\nC=N\n")
        with pytest.raises(CwnetError, match="holds a store of another input or lifting: delete it"):
            lift_files([table], tmp_path / "s")

    def test_two_at_once(self, tables, tmp_path, monkeypatch):
        real = _lift._lifted

        def meanwhile(*arguments):
            with pytest.raises(CwnetError, match="another process is lifting into it: wait for it"):
                lift_files([tables], tmp_path / "s", shard_rows=16)
            return real(*arguments)

        monkeypatch.setattr(_lift, "_lifted", meanwhile)
        assert lift_files([tables], tmp_path / "s", shard_rows=16).complexes == 78
        assert lift_files([tables], tmp_path / "s", shard_rows=16).reused == 6

    @pytest.mark.parametrize("text", ["", "{", "[]", "7", '{"version": '])
    def test_a_damaged_job(self, tables, tmp_path, text):
        (tmp_path / "s").mkdir()
        (tmp_path / "s" / "job.json").write_text(text)
        with pytest.raises(CwnetError, match=r"job\.json is damaged: delete"):
            lift_files([tables], tmp_path / "s", shard_rows=16)

    def test_a_shard_cut_off_is_done_again(self, tables, tmp_path, monkeypatch):
        monkeypatch.setattr(_lift, "_finish", lambda *a: None)
        lift_files([tables], tmp_path / "s", shard_rows=16)
        shard = sorted((tmp_path / "s").glob("*.arrow"))[2]
        shard.write_bytes(shard.read_bytes()[:100])
        monkeypatch.undo()
        assert lift_files([tables], tmp_path / "s", shard_rows=16).reused == 5
        lift_files([tables], tmp_path / "whole", shard_rows=16)
        assert contents(tmp_path / "s") == contents(tmp_path / "whole")

    def test_rows_that_changed_are_done_again(self, tables, tmp_path, monkeypatch):
        """The file keeps its size, so that only its rows tell."""
        monkeypatch.setattr(_lift, "_finish", lambda *a: None)
        lift_files([tables], tmp_path / "s", shard_rows=16)
        monkeypatch.undo()
        text = (tables / "a.csv").read_text()
        (tables / "a.csv").write_text(text.replace("CCN,6,", "CCC,6,"))
        assert lift_files([tables], tmp_path / "s", shard_rows=16).reused == 5

    def test_what_is_in_the_way_is_not_touched(self, tables, tmp_path):
        lift_files([tables], tmp_path / "s")
        with pytest.raises(CwnetError, match="holds a store of another input or lifting"):
            lift_files([tables], tmp_path / "s", lifting="rings:6")
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "thesis.tex").write_text("years of work")
        with pytest.raises(CwnetError, match="is not empty"):
            lift_files([tables], tmp_path / "mine")
        (tmp_path / "bad.smi").write_text("no-molecule\n")
        with pytest.raises(CwnetError, match="no molecule could be lifted"):
            lift_files([tmp_path / "bad.smi"], tmp_path / "none")

    @pytest.mark.parametrize("workers", ["1", "2"])
    def test_killed_and_started_again(self, tmp_path, workers):
        """SIGKILL in the middle; the second call ends with the store that an uninterrupted one gives."""
        if workers == "2":
            pytest.importorskip("distributed")
        with gzip.open(tmp_path / "a.smi.gz", "wt") as file:
            file.writelines(f"{MOLECULES[i % 7]} {i}\n" for i in range(40_000))
        command = [sys.executable, "-m", "cwnet", "lift", str(tmp_path / "a.smi.gz"), "--shard-rows", "500", "--quiet"]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        out = [*command, "-o", str(tmp_path / "s"), "--workers", workers]
        child = subprocess.Popen(out, env=environment)
        deadline = time.monotonic() + 120
        while len(list((tmp_path / "s").glob("*.arrow")) if (tmp_path / "s").exists() else []) < 3:
            assert time.monotonic() < deadline
            assert child.poll() is None
            time.sleep(0.02)
        child.send_signal(signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL
        assert not (tmp_path / "s" / "manifest.json").exists()
        again = subprocess.run([*out, "--json"], env=environment, capture_output=True, text=True, check=True)
        assert json.loads(again.stdout)["reused"] >= 2  # of the third, the note may be missing
        lift_files([tmp_path / "a.smi.gz"], tmp_path / "whole", shard_rows=500)
        assert contents(tmp_path / "s") == contents(tmp_path / "whole")


class TestCommand:
    def test_lift_and_dedup(self, tables, tmp_path):
        text = said("lift", tables, "-o", tmp_path / "s", "--target-columns", "number", "--shard-rows", "16")
        assert "78 molecules in 6 shards" in text
        assert "2 rows left out, see" in text
        text = said("dedup", tmp_path / "s", "-o", tmp_path / "d.csv", "--write", tmp_path / "u")
        assert "71 molecules of 78 had been there before" in text
        assert "7 are left in" in text
        assert open_store(tmp_path / "u").y.flatten().tolist() == [0, 1, 2, 3, 4, 5, 6]
        with open(tmp_path / "d.csv", newline="") as file:
            pairs = {int(row["complex"]): int(row["first"]) for row in csv.DictReader(file)}
        y = open_store(tmp_path / "s").y.flatten().long()
        assert all(y[a] % 7 == y[b] % 7 and y[b] < 7 for a, b in pairs.items())

    def test_bad_input(self, tables, tmp_path):
        assert "there is no such file, folder or pattern" in refused("lift", "nowhere.csv", "-o", tmp_path / "s")
        both = ("--workers", "2", "--scheduler", "tcp://127.0.0.1:1")
        assert "give one of the two" in refused("lift", tables, "-o", tmp_path / "s", *both)
        assert "is not a store" in refused("dedup", tmp_path)


@pytest.mark.parametrize("window", [1, 30, 1000])
def test_a_store_is_trained_on_from_disk(tables, tmp_path, monkeypatch, window):
    """Batches are the same complexes as from memory, and training ends with the same model."""
    from cwnet.train import Recipe, fit

    lift_files([tables], tmp_path / "s", shard_rows=16, target_columns=["number"])
    whole, sharded = open_store(tmp_path / "s"), open_sharded(tmp_path / "s")
    monkeypatch.setattr(_sharded, "_WINDOW", window)
    assert (len(sharded), sharded.num_cells, len(sharded.x)) == (78, whole.num_cells, len(whole.x))
    for index in ([5, 70, 3, 40, 41], [77], list(range(78)), slice(10, 30)):
        ours, theirs = sharded.batch(index), whole.batch(index)
        assert ours.num_cells == theirs.num_cells
        assert torch.equal(ours.y, theirs.y)
        assert torch.equal(ours.x[0], theirs.x[0])
        assert torch.equal(ours.boundary(2).idx, theirs.boundary(2).idx)
    shuffled = torch.randperm(78).tolist()
    assert torch.equal(sharded.batch(shuffled).x[1], whole.batch(shuffled).x[1])
    recipe = {
        "data": {"name": str(tmp_path / "s"), "on_disk": True},
        "model": {"width": 8, "layers": 2},
        "train": {"epochs": 2, "batch_size": 16},
    }
    (first,) = fit(Recipe.from_dict(recipe), device="cpu", progress=False)
    assert first.history[-1]["loss"] > 0
    (second,) = fit(Recipe.from_dict(recipe), device="cpu", progress=False)
    assert first.history[-1]["loss"] == second.history[-1]["loss"]


def test_one_complex_of_a_store_on_disk(tables, tmp_path):
    lift_files([tables], tmp_path / "s", shard_rows=16, target_columns=["number"])
    whole, sharded = open_store(tmp_path / "s"), open_sharded(tmp_path / "s")
    for ours, theirs in [*zip(sharded, whole, strict=True), (sharded[-1], whole[77])]:
        assert ours.num_cells == theirs.num_cells
        assert ours.cells(2) == theirs.cells(2)
        assert torch.equal(ours.x[0], theirs.x[0])
        assert torch.equal(ours.y, theirs.y)
    with pytest.raises(IndexError, match="complex 78 was asked for, but there are 78"):
        sharded[78]


def test_epochs_from_disk_see_every_complex_once(tables, tmp_path, monkeypatch):
    from cwnet.data import ComplexLoader

    monkeypatch.setattr(_sharded, "_WINDOW", 30)
    lift_files([tables], tmp_path / "s", shard_rows=16, target_columns=["number"])
    sharded = open_sharded(tmp_path / "s")
    index = [i for i in range(78) if i % 5]
    loader = ComplexLoader(sharded, 8, index=index, shuffle=True, seed=3)
    first, second = (torch.cat(loader.batches(epoch)).tolist() for epoch in (0, 1))
    assert sorted(first) == sorted(second) == index
    assert first != second
    assert first != index
    shards = torch.bucketize(torch.tensor(first), torch.tensor(sharded.starts), right=True)
    assert len(set(shards[:30].tolist())) <= 4  # a few shards at a time, of six
    ranks = [ComplexLoader(sharded, 8, index=index, shuffle=True, seed=3, rank=r, world_size=2) for r in (0, 1)]
    both = torch.cat([torch.cat(rank.batches(0)) for rank in ranks])
    assert sorted(both.tolist()) == index
    with pytest.raises(ValueError, match="needs a store in memory"):
        ComplexLoader(sharded, max_cells=100)


class TestDuplicates:
    SMILES = (
        "N[C@@H](C)C(=O)O", "C[C@H](N)C(=O)O", "N[C@H](C)C(=O)O",  # L-alanine twice, and D-alanine
        "CO", "[13CH3]O", "OC", "O[13CH3]",
        "C[O-]", "C[O]", "F/C=C/F", "F/C=C\\F", "F\\C=C\\F", "CCO", "CCO",
    )  # fmt: skip

    def test_the_same_molecules_and_no_others(self, tmp_path):
        (tmp_path / "t.smi").write_text("\n".join(self.SMILES) + "\n")
        lift_files([tmp_path / "t.smi"], tmp_path / "s", shard_rows=3)
        found = find_duplicates(tmp_path / "s", tmp_path / "work")
        pairs = list(zip(found.again.tolist(), found.first.tolist(), strict=True))
        assert pairs == [(1, 0), (5, 3), (6, 4), (11, 9), (13, 12)]
        assert without_duplicates(tmp_path / "s", tmp_path / "u", found) == 9
        assert len(find_duplicates(tmp_path / "u", tmp_path / "work").again) == 0
        assert [s for i in range(5) for s in open_smiles(tmp_path / "u", i)] == [
            s for i, s in enumerate(self.SMILES) if i not in found.again
        ]

    def test_stores_without_smiles_are_told_by_certificates(self, tmp_path):
        save_store(Featuriser()(["CO", "[13CH3]O", "CC"]), tmp_path / "s")
        found = find_duplicates(tmp_path / "s", tmp_path / "work")
        assert (found.again.tolist(), found.first.tolist()) == ([1], [0])
