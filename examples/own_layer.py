"""A layer of one's own in thirty lines, trained on a task that graph networks can not do.

In graphs where every vertex has three neighbours, a graph network sees nothing but the number of vertices. The target
is the number of edges that lie on two rings or more. Takes about ten seconds: python examples/own_layer.py
On ZINC, from the recipe beside this file: cwnet train examples/own_layer.toml
"""

from dataclasses import replace

import networkx as nx
import torch

from cwnet import Rings, lift_many, nn
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


def make(dataset, width=64, layers=4, norm="batch"):
    start = [nn.encoders.Constant(width), nn.encoders.FromVertices("mean"), nn.encoders.FromVertices("mean")]
    encoder = nn.CellEncoder(start) if dataset.store.x[0] is None else nn.models.molecule_encoder(width)
    layers = [GatedConv(width, norm) for _ in range(layers)]
    return nn.CIN(encoder, layers, nn.Readout(width, 2 * width, pool="both"), nn.Head(2 * width, dataset.outputs))


def main():
    store = lift_many([nx.random_regular_graph(3, 16, seed=i) for i in range(600)], Rings(6))
    y = [[float(sum(len(rings) > 1 for rings in complex_.coboundary(1).tolist()))] for complex_ in store]
    data = Dataset("regular", replace(store, y=torch.tensor(y)), (random_split(600),), "regression", 1, "mae", {})
    assert_cell_equivariant(GatedConv(16), store[0], 16)
    changes = ["train.epochs=10", "train.batch_size=32", "train.lr=3e-3", "model.preset=gin", "model.norm=layer"]
    recipe = Recipe.from_dict({"data": {"name": "regular"}, "model": {"width": 16}}).changed(changes)
    print(f"The best constant is off by {(data.store.y - data.store.y.median()).abs().mean():.2f}")
    for name, model in {"GIN": None, "our layer": lambda dataset: make(dataset, 16, 2, "layer")}.items():
        print(f"{name} is off by {fit(recipe, dataset=data, model=model, device='cpu', progress=False)[0].test:.2f}")


if __name__ == "__main__":
    main()
