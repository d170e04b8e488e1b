"""A layer of one's own in ten lines, trained on a task that graph networks can not do.

In graphs where every vertex has three neighbours, a graph network sees nothing but the number of vertices. The target
is the number of edges that lie on two rings or more. Takes about ten seconds: python examples/own_layer.py
"""

from dataclasses import replace

import networkx as nx
import torch

import cwnet
from cwnet.data import ComplexLoader
from cwnet.nn import CIN, MLP, CellConv, CellEncoder, Head, Module, Readout, encoders, gin
from cwnet.nn.testing import assert_cell_equivariant


class GatedConv(Module):
    """A gate, which sees the receiver, decides how much of each upper neighbour to listen to."""

    def __init__(self, width):
        super().__init__()
        self.gate, self.mlp = torch.nn.Linear(3 * width, width), MLP(3 * width, width, 2, "relu", "layer")
        self.conv = CellConv(self.update, boundary=lambda h, part: part, upper=self.message)

    def message(self, h, other, shared):
        return torch.sigmoid(self.gate(torch.cat([h, other, shared], 1))) * other

    def update(self, h, boundary, upper):
        return h + self.mlp(torch.cat([h, boundary, upper], 1))

    def forward(self, x, cells):
        return self.conv(x, cells)


def main(width=16):
    store = cwnet.lift_many([nx.random_regular_graph(3, 16, seed=i) for i in range(600)], cwnet.Rings(6))
    y = [sum(len(rings) > 1 for rings in complex_.coboundary(1).tolist()) for complex_ in store]
    store = replace(store, y=torch.tensor(y)[:, None].float())
    assert_cell_equivariant(GatedConv(width), store[0], width)
    print(f"The best constant is off by {(store.y[500:] - store.y[:500].median()).abs().mean():.2f}")
    torch.manual_seed(0)
    start = [encoders.Constant(width), encoders.FromVertices("mean"), encoders.FromVertices("mean")]
    layers, readout, head = [GatedConv(width), GatedConv(width)], Readout(width, 2 * width), Head(2 * width, 1)
    models = {"GIN": gin(CellEncoder(start[:1]), width, 2, norm="layer"),
              "our layer": CIN(CellEncoder(start), layers, readout, head)}  # fmt: skip
    for name, model in models.items():
        optimiser = torch.optim.Adam(model.parameters(), lr=3e-3)
        for epoch in range(10):
            for batch in ComplexLoader(store, 32, index=range(500), shuffle=True, seed=epoch):
                optimiser.zero_grad()
                (model(batch) - batch.y).abs().mean().backward()
                optimiser.step()
        test = store.batch(range(500, 600))
        print(f"{name} is off by {(model(test) - test.y).abs().mean():.2f}")


if __name__ == "__main__":
    main()
