"""A layer of one's own in thirty lines, trained on a task that graph networks can not do.

In graphs where every vertex has three neighbours, a graph network sees nothing but the number of vertices. The target
is the number of edges that lie on two rings or more. Takes about ten seconds: python examples/own_layer.py
The same layer on ZINC, from the recipe beside this file: cwnet train examples/own_layer.toml
"""

from dataclasses import replace

import networkx as nx
import torch

import cwnet
from cwnet import nn
from cwnet.data import Dataset, random_split
from cwnet.nn.functional import boundary_sum, upper_sum
from cwnet.nn.testing import assert_cell_equivariant
from cwnet.train import Recipe, fit


class GatedConv(nn.Module):
    """h' = h + g ⊙ m, with messages m = MLP([h ‖ boundary ‖ upper]) and a gate g = sigmoid(W [h ‖ m] + b)."""

    def __init__(self, width, norm="batch", dim=2):
        super().__init__()
        self.mlps = torch.nn.ModuleList(nn.MLP(3 * width, width, norm=norm) for _ in range(dim + 1))
        self.gates = torch.nn.ModuleList(torch.nn.Linear(2 * width, width) for _ in range(dim + 1))

    def forward(self, x, cells):
        out = []
        for d, (mlp, gate) in enumerate(zip(self.mlps, self.gates, strict=True)):
            nothing, last = torch.zeros_like(x[d]), d + 1 == len(self.mlps)
            below = boundary_sum(x[d - 1], cells, d) if d else nothing
            beside = nothing if last else upper_sum(x[d], x[d + 1], cells, d, "relu")
            message = mlp(torch.cat([x[d], below, beside], 1), cells.mask(d))
            out.append(x[d] + torch.sigmoid(gate(torch.cat([x[d], message], 1))) * message)
        return out


def make(dataset, width=64, layers=4):
    """The model that the recipe asks for: CIN with this layer in the place of its own."""
    encoder = nn.models.molecule_encoder(width)
    readout, head = nn.Readout(width, 2 * width, pool="both"), nn.Head(2 * width, dataset.outputs)
    return nn.CIN(encoder, [GatedConv(width) for _ in range(layers)], readout, head)


def on_regular_graphs(dataset, width=16):
    start = [nn.encoders.Constant(width), nn.encoders.FromVertices("mean"), nn.encoders.FromVertices("mean")]
    layers = [GatedConv(width, "layer"), GatedConv(width, "layer")]
    return nn.CIN(nn.CellEncoder(start), layers, nn.Readout(width, 2 * width), nn.Head(2 * width, 1))


def main():
    store = cwnet.lift_many([nx.random_regular_graph(3, 16, seed=i) for i in range(600)], cwnet.Rings(6))
    y = [sum(len(rings) > 1 for rings in complex_.coboundary(1).tolist()) for complex_ in store]
    store = replace(store, y=torch.tensor(y)[:, None].float())
    assert_cell_equivariant(GatedConv(16), store[0], 16)
    data = Dataset("regular", store, (random_split(600),), "regression", 1, "mae", {})
    tables = {"data": {"name": "regular"}, "train": {"epochs": 10, "batch_size": 32, "lr": 3e-3}}
    recipe = Recipe.from_dict({**tables, "model": {"preset": "gin", "width": 16, "layers": 2, "norm": "layer"}})
    print(f"The best constant is off by {(store.y - store.y.median()).abs().mean():.2f}")
    for name, model in {"GIN": None, "our layer": on_regular_graphs}.items():
        [result] = fit(recipe, dataset=data, model=model, device="cpu", progress=False)
        print(f"{name} is off by {result.test:.2f}")


if __name__ == "__main__":
    main()
