"""Training in CUDA graphs equals training without them. These need a GPU; the kernels are tested without one too."""

from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from cwnet import Rings, lift_many
from cwnet.complexes import ComplexStore
from cwnet.nn import cin
from cwnet.nn.models import molecule_encoder
from cwnet.train import Recipe, fit
from cwnet.train._objectives import Objective
from cwnet.train._padded import Capacity, Resident
from cwnet.train._recipe import TrainRecipe
from cwnet.train._steps import EagerSteps

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def molecules(count=60, seed=0):
    """Rings with tails and chords, with atoms, bonds and a target."""
    rng = torch.Generator().manual_seed(seed)
    graphs = []
    for _ in range(count):
        n, tail = (int(torch.randint(3, 8, (), generator=rng)) for _ in range(2))
        edges = [(i, (i + 1) % n) for i in range(n)] + [(n - 1 + i, n + i) for i in range(tail)]
        graphs.append((n + tail, edges))
    flat = ComplexStore.from_graphs(
        [n for n, _ in graphs],
        [len(e) for _, e in graphs],
        [edge for _, e in graphs for edge in e],
        x=torch.randint(0, 28, (sum(n for n, _ in graphs), 1), generator=rng),
        edge_x=torch.randint(0, 4, (sum(len(e) for _, e in graphs), 1), generator=rng),
        y=torch.randn(count, 1, generator=rng),
    )
    return lift_many(flat, Rings(8))


def model(seed=0, **options):
    torch.manual_seed(seed)
    return cin(molecule_encoder(16), 16, 2, **options)


def steps(kind, store, seed=0, device="cuda", lr=1e-4, batch_size=16, weighted=False, **options):
    made, objective = model(seed, **options), Objective("l1", weighted=weighted)
    return kind(made, store, objective, TrainRecipe(batch_size=batch_size, loss="l1", lr=lr), device)


def graph_steps(*arguments, **options):
    from cwnet.train._graph import GraphSteps

    return steps(GraphSteps, *arguments, **options)


def exhaust(iterator):
    for _ in iterator:
        pass


def batches(count=60, seed=0, size=16):
    rng = torch.Generator().manual_seed(seed)
    return list(torch.split(torch.randperm(count, generator=rng), size))


def weights(run):
    return {name: tensor.cpu() for name, tensor in run.model.state_dict().items()}


@needs_gpu
def test_fifty_steps_agree_with_the_cpu():
    store = molecules()
    runs = [graph_steps(store), steps(EagerSteps, store), steps(EagerSteps, store, device="cpu")]
    for run in runs:
        found = []
        for epoch in range(13):
            exhaust(run.train(batches(seed=epoch)))
            found.append(run.losses())
        run.found = torch.cat(found)
    for run in runs[:2]:
        torch.testing.assert_close(run.found, runs[2].found, rtol=1e-3, atol=1e-4)
        for name, tensor in weights(run).items():
            torch.testing.assert_close(tensor, weights(runs[2])[name], rtol=1e-2, atol=1e-3, msg=name)


@needs_gpu
def test_weights_of_targets_travel_with_padded_batches():
    store = molecules()
    each = torch.rand(len(store), 1, generator=torch.Generator().manual_seed(1))
    store = replace(store, y=torch.cat([store.y, each], 1))
    found, plain = graph_steps(store, weighted=True), steps(EagerSteps, store, device="cpu", weighted=True)
    for run in (found, plain):
        exhaust(run.train(batches()))
    torch.testing.assert_close(found.losses(), plain.losses(), rtol=1e-3, atol=1e-4)


@needs_gpu
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_runs_side_by_side_equal_runs_alone(dropout):
    store = molecules()
    together = [graph_steps(store, seed=seed, dropout=dropout) for seed in range(3)]
    for epoch in range(3):
        going = [run.train(batches(seed=epoch)) for run in together]
        while going:
            going = [one for one in going if next(one, None) is not None]
        read = [run.predict(torch.arange(40, 60)) for run in together]
    predictions = [one() for one in read]
    for seed, beside in enumerate(together):
        alone = graph_steps(store, seed=seed, dropout=dropout)
        for epoch in range(3):
            exhaust(alone.train(batches(seed=epoch)))
        assert torch.equal(alone.losses(), beside.losses())
        assert torch.equal(alone.predict(torch.arange(40, 60))(), predictions[seed])
        assert all(torch.equal(a, b) for a, b in zip(weights(alone).values(), weights(beside).values(), strict=True))


@needs_gpu
def test_it_goes_on_where_it_stopped():
    store = molecules()
    whole = graph_steps(store, dropout=0.3)
    exhaust(whole.train(batches()))
    exhaust(whole.train(batches(seed=1)))
    first = graph_steps(store, dropout=0.3)
    exhaust(first.train(batches()))
    second = graph_steps(store, seed=5, dropout=0.3)
    second.load_state(first.state())
    exhaust(second.train(batches(seed=1)))
    assert torch.equal(second.losses(), whole.losses())
    for name, tensor in weights(whole).items():
        assert torch.equal(tensor, weights(second)[name]), name


@needs_gpu
def test_a_run_that_began_on_a_cpu_goes_on():
    store = molecules()
    whole, first = (steps(EagerSteps, store, device="cpu") for _ in range(2))
    for epoch in range(2):
        exhaust(whole.train(batches(seed=epoch)))
    exhaust(first.train(batches()))
    second = graph_steps(store, seed=5)
    second.load_state(first.state())
    exhaust(second.train(batches(seed=1)))
    torch.testing.assert_close(second.losses(), whole.losses(), rtol=1e-3, atol=1e-4)


@needs_gpu
def test_a_batch_that_is_too_large_takes_the_eager_step(monkeypatch):
    store = molecules()
    plain = steps(EagerSteps, store)
    run = graph_steps(store)
    small = run.resident.exact([b for b in batches() if len(b) < 16])
    monkeypatch.setattr(Resident, "usual", lambda self, index, size: [small])
    exhaust(run.train(batches()))
    exhaust(plain.train(batches()))
    assert run.describe() == {"kind": "CUDA graphs", "sizes": 1, "batches_too_large": run.too_large}
    assert run.too_large > 0
    torch.testing.assert_close(run.losses(), plain.losses(), rtol=1e-3, atol=1e-4)


@needs_gpu
def test_batches_of_several_sizes_and_too_large_ones_agree_with_the_eager_steps(monkeypatch):
    store, sizes = molecules(200), [6, 30, 48, 6, 30, 48, 32]
    runs = [graph_steps(store, batch_size=48), steps(EagerSteps, store, batch_size=48)]
    epochs = [batches(200, seed, sizes) for seed in range(3)]
    everything = [batch for epoch in epochs for batch in epoch]
    capacities = [runs[0].resident.exact([one for one in everything if len(one) <= most]) for most in (6, 32)]
    monkeypatch.setattr(Resident, "usual", lambda self, index, size: capacities)
    for run in runs:
        found = []
        for epoch in epochs:
            exhaust(run.train(epoch))
            found.append(run.losses())
        run.found = torch.cat(found)
    assert runs[0]._taken == [0, 1, None, 0, 1, None, 1]
    assert runs[0].too_large == 6
    torch.testing.assert_close(runs[0].found, runs[1].found, rtol=1e-3, atol=1e-4)


@needs_gpu
def test_predictions_are_those_of_the_model():
    store = molecules()
    run = graph_steps(store)
    exhaust(run.train(batches()))
    found = run.predict(torch.tensor([5, 3, 59]))()
    plain = model().eval()
    plain.load_state_dict(run.evaluated()())
    torch.testing.assert_close(found, plain(store.batch([5, 3, 59])).detach(), rtol=1e-3, atol=1e-4)


# ------------------------------------------------------------------------------------------------ without a GPU


def test_capacities_hold_what_they_must():
    store = molecules()
    resident = Resident(store, torch.device("cpu"))
    parts = batches()
    exact = resident.exact(parts)
    assert resident.smallest(parts, [exact]) == [0] * len(parts)
    assert all(n % 64 == 0 for n in exact.cells)
    tight = Capacity(tuple(int(resident.cells[parts[0]].sum(0)[d]) for d in range(3)), exact.incidences)
    less = tight._replace(cells=(tight.cells[0] - 1, *tight.cells[1:]))
    assert resident.smallest([parts[0]], [tight]) == [0]
    assert resident.smallest([parts[0]], [less]) == [None]
    assert resident.smallest([parts[0]], [less, tight, exact]) == [1]
    usual = resident.usual(torch.arange(60), 16)
    assert all(None not in resident.smallest(batches(seed=s), usual) for s in range(50))


def test_molecules_have_one_size_of_batches_and_graphs_that_differ_several():
    def paths(sizes):
        edges = [(i, i + 1) for n in sizes for i in range(n - 1)]
        return Resident(ComplexStore.from_graphs(sizes, [n - 1 for n in sizes], edges), torch.device("cpu"))

    assert len(paths([20, 21, 22, 23] * 50).usual(torch.arange(200), 128)) == 1
    sizes = [*range(3, 40)] * 4 + [900, 1000]
    resident = paths(sizes)
    usual = resident.usual(torch.arange(len(sizes)), 32)
    assert len(usual) == 3
    assert all(a.cells < b.cells and a.incidences < b.incidences for a, b in pairwise(usual))
    few = [torch.arange(i, i + 32) for i in range(0, 96, 32)]
    assert set(resident.smallest(few, usual)) == {0}
    assert resident.smallest([torch.arange(len(sizes) - 32, len(sizes))], usual) in ([1], [2])


def test_a_capacity_is_never_more_than_the_largest_complexes_need():
    resident = Resident(molecules(5), torch.device("cpu"))
    assert resident.usual(torch.arange(5), 16) == [resident.exact([torch.arange(5)])]


def test_coboundaries_of_a_resident_store_are_local():
    store = molecules(4)
    resident = Resident(store, torch.device("cpu"))
    _, up = resident._held
    for i in range(4):
        for d in range(2):
            start, stop = (int(store.cell_ptr[d][j]) for j in (i, i + 1))
            assert up[d].slice(start, stop).tolist() == store[i].coboundary(d).tolist()


RING = {"name": "ring-transfer", "options": {"k": 8, "num_train": 200, "num_val": 40, "num_test": 40}}


@needs_gpu
@pytest.mark.parametrize(
    ("data", "model"),
    [
        (RING, {"kind": "ring-transfer", "layers": 3}),
        ({**RING, "lifting": "none"}, {"kind": "ring-transfer-gin", "layers": 4}),
        ({"name": "csl"}, {"norm": "layer", "pool": "mean", "vertices": "constant", "edges": "constant"}),
        ({"name": "csl", "lifting": "none"}, {"kind": "gin", "vertices": "constant", "norm": "none"}),
        ({"name": "csl"}, {"kind": "cin++", "vertices": "ones", "shared": False, "jumping": True, "norm": "none"}),
    ],
    ids=["cells", "cells-gin", "layer-norm", "gin", "raw-jumping"],
)
def test_models_of_all_kinds_agree_with_the_cpu(data, model, tmp_path, monkeypatch):
    """The second data set needs nothing but the numbers of its folds."""
    monkeypatch.setenv("CWNET_CACHE", str(tmp_path))
    if data["name"] == "csl":
        monkeypatch.setenv("CWNET_DATA", str(tmp_path))
        folder = tmp_path / "CSL" / "splits_benchmarking_gnns"
        folder.mkdir(parents=True)
        for part, first in (("train", 0), ("val", 1), ("test", 2)):
            line = ",".join(map(str, range(first, 150, 3)))
            (folder / f"CSL_{part}.index").write_text("\n".join([line] * 5) + "\n")
    recipe = Recipe.from_dict(
        {
            "data": {"fold": 0, **data},
            "model": {"width": 16, "layers": 2, **model},
            "train": {"epochs": 3, "lr": 1e-4, "batch_size": 32},
        }
    )
    (there,), (here,) = (fit(recipe, device=device, progress=False) for device in ("cuda", "cpu"))
    for ours, theirs in zip(there.history, here.history, strict=True):
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-3)
    torch.testing.assert_close(there.predictions.cpu(), here.predictions, rtol=1e-2, atol=1e-2)
