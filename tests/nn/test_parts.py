"""All the small parts in one model."""

import json
from dataclasses import replace

import pytest
import torch

import cwnet
from cwnet import Rings
from cwnet.lifting import relabelled
from cwnet.nn import (
    CIN,
    AttentionConv,
    Beside,
    CellEncoder,
    CINConv,
    CoboundaryConv,
    CycleCounts,
    Gated,
    Head,
    MaxReadout,
    MeanReadout,
    Residual,
    VirtualCell,
    from_config,
    to_config,
)
from cwnet.nn.encoders import Categories, FromVertices, Sum
from cwnet.train._objectives import Objective
from cwnet.train._recipe import TrainRecipe
from cwnet.train._steps import EagerSteps
from tests.nn.padding import assert_padding_safe
from tests.nn.test_models import ATOMS, BONDS, molecule, molecules
from tests.reference.layers import assert_close, randomise

WIDTH = 8


def everything():
    encoder = CellEncoder(
        [
            Sum([Categories(list(ATOMS), WIDTH), CycleCounts(6, WIDTH)]),
            Sum([Categories(list(BONDS), WIDTH), CycleCounts(6, WIDTH)]),
            FromVertices(),
        ]
    )
    convs = [
        Residual(CINConv(WIDTH)),
        Residual(AttentionConv(WIDTH, heads=2)),
        VirtualCell(WIDTH),
        Gated(CoboundaryConv(WIDTH), WIDTH),
    ]
    return CIN(encoder, convs, Beside([MeanReadout(WIDTH, 16), MaxReadout(WIDTH, 16)]), Head(16, 1))


def test_padding_changes_nothing_in_training():
    model = randomise(everything().double())
    assert_padding_safe(model, lambda model, x, cells: [model(cells)], molecules(6).batch())


@pytest.mark.parametrize("training", [True, False], ids=["training", "evaluation"])
def test_numbers_of_vertices_do_not_matter(training):
    model = randomise(everything().double()).train(training)
    graphs = [molecule(seed) for seed in range(8)]
    others = [relabelled(graph, seed)[0] for seed, graph in enumerate(graphs)]
    with torch.no_grad():
        found, expected = (model(cwnet.lift_many(many, Rings(6)).batch()) for many in (others, graphs))
    assert_close(found, expected, 1e-10)
    assert len(torch.unique(expected.round(decimals=6))) > 1


def test_it_is_built_anew_from_plain_data():
    torch.manual_seed(0)
    model = everything()
    other = from_config(json.loads(json.dumps(to_config(model))))
    other.load_state_dict(model.state_dict())
    batch = molecules(4).batch()
    assert torch.equal(model.eval()(batch), other.eval()(batch))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_steps_in_a_graph_are_those_without():
    from cwnet.train._graph import GraphSteps

    store = molecules(48)
    store = replace(store, y=torch.randn(48, 1, generator=torch.Generator().manual_seed(0)))
    batches = list(torch.arange(48).split(16))
    found = []
    for kind, device in ((GraphSteps, "cuda"), (EagerSteps, "cuda"), (EagerSteps, "cpu")):
        torch.manual_seed(0)
        recipe = TrainRecipe(batch_size=16, loss="l1", lr=1e-4)
        run = kind(everything(), store, Objective("l1"), recipe, device)
        losses = []
        for _ in range(8):
            for _ in run.train(batches):
                pass
            losses.append(run.losses())
        found.append(torch.cat(losses))
    torch.testing.assert_close(found[0], found[2], rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(found[1], found[2], rtol=1e-3, atol=1e-4)
