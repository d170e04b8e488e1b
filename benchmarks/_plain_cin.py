"""CIN on ZINC as one would write it with PyTorch Geometric: a list of `Data`, its DataLoader, pairs and `index_add`.

This is the peer that the training engine is measured against. It is the same model: it takes the weights of
`cwnet.nn.cin` and gives the same loss.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch_geometric.data import Data

from cwnet import ComplexStore

__all__ = ["PlainCIN", "plain_data"]


class PlainData(Data):
    """A lifted molecule: upper pairs with what they share, boundaries, and the atoms of rings."""

    def __inc__(self, key: str, value: Any, *args: Any, **kwargs: Any) -> Any:
        atoms, bonds, rings = self.counts[0].tolist()
        return {
            "upper_0": atoms,
            "upper_1": bonds,
            "shared_0": bonds,
            "shared_1": rings,
            "boundary_1": torch.tensor([[atoms], [bonds]]),
            "boundary_2": torch.tensor([[bonds], [rings]]),
            "ring_atoms": torch.tensor([[atoms], [rings]]),
            "owner_0": 1,
            "owner_1": 1,
            "owner_2": 1,
        }.get(key, 0)

    def __cat_dim__(self, key: str, value: Any, *args: Any, **kwargs: Any) -> Any:
        return 1 if key.startswith(("upper", "boundary", "ring_atoms")) else 0


def plain_data(store: ComplexStore, index: Tensor) -> list[PlainData]:
    """Molecules as PyG keeps them."""
    out = []
    for i in index.tolist():
        cells = store[i]
        data = PlainData(x=cells.x[0].long().flatten(), bonds=cells.x[1].long().flatten(), y=cells.y[None])
        data.counts = torch.tensor([cells.num_cells])
        for d in (0, 1):
            pairs = cells.upper(d)
            data[f"upper_{d}"], data[f"shared_{d}"] = pairs.index, pairs.shared
            csr = cells.boundary(d + 1)
            data[f"boundary_{d + 1}"] = torch.stack([csr.idx, csr.rows])
        rings = cells.vertices(2)
        data.ring_atoms = torch.stack([rings.idx, rings.rows])
        for d, n in enumerate(cells.num_cells):
            data[f"owner_{d}"] = torch.zeros(n, dtype=torch.int64)
        out.append(data)
    return out


def gathered(x: Tensor, source: Tensor, target: Tensor, rows: int) -> Tensor:
    """Σ of x[source] at target."""
    return x.new_zeros(rows, x.shape[1]).index_add_(0, target, x[source])


def perceptron(width_in: int, width: int, layers: int) -> torch.nn.Module:
    """[Linear, BatchNorm, ReLU] some times."""
    parts: list[torch.nn.Module] = []
    for i in range(layers):
        parts += [torch.nn.Linear(width if i else width_in, width), torch.nn.BatchNorm1d(width), torch.nn.ReLU()]
    return torch.nn.Sequential(*parts)


class PlainLayer(torch.nn.Module):
    """The paper's layer, one dimension after another, messages over pairs."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.message = torch.nn.ModuleList(torch.nn.Linear(2 * width, width) for _ in range(2))
        self.upper = torch.nn.ModuleList(perceptron(width, width, 2) for _ in range(3))
        self.boundary = torch.nn.ModuleList(perceptron(width, width, 2) for _ in range(3))
        self.join = torch.nn.ModuleList(perceptron(2 * width, width, 1) for _ in range(3))

    def forward(self, x: list[Tensor], batch: Any) -> list[Tensor]:
        out = []
        for d in range(3):
            up, bound = x[d], x[d]
            if d < 2:
                (source, target), shared = batch[f"upper_{d}"], batch[f"shared_{d}"]
                sent = self.message[d](torch.cat([x[d][source], x[d + 1][shared]], dim=1)).relu()
                up = up + torch.zeros_like(up).index_add_(0, target, sent)
            if d > 0:
                face, cell = batch[f"boundary_{d}"]
                bound = bound + gathered(x[d - 1], face, cell, len(x[d]))
            out.append(self.join[d](torch.cat([self.upper[d](up), self.boundary[d](bound)], dim=1)))
        return out


class PlainCIN(torch.nn.Module):
    """CIN for ZINC."""

    def __init__(self, width: int = 128, layers: int = 4) -> None:
        super().__init__()
        self.atoms, self.bonds = torch.nn.Embedding(28, width), torch.nn.Embedding(4, width)
        self.layers = torch.nn.ModuleList(PlainLayer(width) for _ in range(layers))
        self.read = torch.nn.ModuleList(torch.nn.Linear(width, 2 * width) for _ in range(3))
        self.head = torch.nn.Linear(2 * width, 1)

    def forward(self, batch: Any) -> Tensor:
        atoms = self.atoms(batch.x)
        source, target = batch.ring_atoms
        x = [atoms, self.bonds(batch.bonds), gathered(atoms, source, target, len(batch.owner_2))]
        for layer in self.layers:
            x = layer(x, batch)
        size = batch.counts.shape[0]
        pooled = [h.new_zeros(size, h.shape[1]).index_add_(0, batch[f"owner_{d}"], h) for d, h in enumerate(x)]
        return self.head(sum(linear(p).relu() for linear, p in zip(self.read, pooled, strict=True)))

    def take(self, model: Any) -> PlainCIN:
        """The weights of ``cwnet.nn.cin(molecule_encoder(width), width, layers)``."""

        def put(ours: torch.nn.Module, theirs: Any) -> None:
            linears = [p for p in ours if isinstance(p, torch.nn.Linear)]
            for linear, other in zip(linears, theirs.linears, strict=True):
                linear.load_state_dict(other.state_dict())

        self.atoms.load_state_dict(model.encoder.encoders[0].tables[0].state_dict())
        self.bonds.load_state_dict(model.encoder.encoders[1].tables[0].state_dict())
        for layer, conv in zip(self.layers, model.convs, strict=True):
            for d in range(3):
                put(layer.upper[d], conv.mlps["upper"][d])
                put(layer.boundary[d], conv.mlps["boundary"][d])
                put(layer.join[d], conv.join[d])
                if d < 2:
                    layer.message[d].load_state_dict(conv.upper_message[d].state_dict())
        for linear, other in zip(self.read, model.readout.linears, strict=True):
            linear.load_state_dict(other.state_dict())
        self.head.load_state_dict(model.head.linear.state_dict())
        return self
