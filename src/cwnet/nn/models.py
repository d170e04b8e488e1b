"""Models by composition: an encoder, convolutions, a readout and a head. The small functions make the paper's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from cwnet.complexes import CellComplex, collate
from cwnet.complexes._batch import ComplexBatch
from cwnet.nn._mlp import MLP
from cwnet.nn._module import Module, reset_parts
from cwnet.nn.colours import ColourCounts
from cwnet.nn.conv import CINConv, CINppConv, GINConv, GINEConv
from cwnet.nn.conv._inputs import check_inputs
from cwnet.nn.encoders import Categories, CellEncoder, Constant, FromVertices, Linear, Raw, Zeros
from cwnet.nn.readout import Beside, CellHead, Head, Readout

__all__ = ["CIN", "CellMLP", "cin", "gin", "mlp_baseline", "molecule_encoder", "ring_transfer", "sin", "steady_cin"]


class CIN(Module):
    r"""A CW Network: encode, convolve, read out, predict.

        h⁰ = encoder(X),   hˡ⁺¹ = conv_l(hˡ, X),   y = head(readout(hᴸ))

    All four parts are modules; any of them can be one's own. Without a readout the head sees the cells (`CellHead`).

    Args:
        encoder: from a batch to one feature tensor per dimension.
        convs: layers from features to features.
        readout: from features to a vector per complex; None for targets of cells.
        head: from that vector (or from the cells) to the output.
        dropout: dropout after every layer.
        jumping: whether the readout sees the outputs of all layers, side by side.
        check_finite: whether to refuse NaN and infinite features, at the cost of a look at all of them.
    """

    def __init__(
        self,
        encoder: Module,
        convs: Sequence[Module],
        readout: Module | None,
        head: Module,
        dropout: float = 0.0,
        jumping: bool = False,
        check_finite: bool = False,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.convs = torch.nn.ModuleList(convs)
        self.readout = readout
        self.head = head
        self.dropout = torch.nn.Dropout(dropout)
        self.jumping, self.check_finite = jumping, check_finite

    def forward(self, batch: ComplexBatch | CellComplex) -> Tensor:
        batch = _as_batch(batch)
        x = self.cell_features(batch)
        out: Tensor = self.head(x, batch) if self.readout is None else self.head(self.readout(x, batch))
        return out

    def cell_features(self, batch: ComplexBatch | CellComplex) -> list[Tensor]:
        """The features of all cells after the last layer (after every layer, with jumping knowledge)."""
        batch = _as_batch(batch)
        if self.check_finite:
            _check_finite(batch)
        x = self.encoder(batch)
        seen = []
        for conv in self.convs:
            # What a layer passes on as it was is not dropped again.
            x = [h if any(h is old for old in x) else self.dropout(h) for h in conv(x, batch)]
            seen.append(x)
        if not self.jumping:
            return list(x)
        # Later layers may compute fewer dimensions than earlier ones.
        return [torch.cat([layer[d] for layer in seen], dim=1) for d in range(min(map(len, seen)))]

    def embed(self, batch: ComplexBatch | CellComplex) -> Tensor:
        """The vector of each complex, before the head."""
        if self.readout is None:
            raise ValueError("this model predicts for cells and has no vector per complex")
        batch = _as_batch(batch)
        out: Tensor = self.readout(self.cell_features(batch), batch)
        return out

    def reset_parameters(self) -> None:
        """Draw new weights."""
        reset_parts(self)

    def num_parameters(self) -> int:
        """How many numbers there are to learn."""
        return sum(p.numel() for p in self.parameters() if p.requires_grad)


def _as_batch(batch: ComplexBatch | CellComplex) -> ComplexBatch:
    return collate([batch]) if isinstance(batch, CellComplex) else batch


def _check_finite(batch: ComplexBatch) -> None:
    for d, x in enumerate(batch.x):
        if x is not None and x.is_floating_point() and not bool(torch.isfinite(x).all()):
            at = int((~torch.isfinite(x)).reshape(x.shape[0], -1).any(1).nonzero()[0])
            owner = int(batch.complex_of(d)[at])
            raise ValueError(
                f"x[{d}] of complex {owner} is NaN or infinite at cell {at - int(batch.cell_ptr[d][owner])}"
            )


class CellMLP(Module):
    """A perceptron on every cell by itself, in the place of a convolution: no messages pass."""

    def __init__(
        self, width_in: int, width: int, dim: int = 2, layers: int = 1, act: str = "relu", norm: str = "none"
    ) -> None:
        super().__init__()
        self.dim, self.width_in = dim, width_in
        self.mlps = torch.nn.ModuleList(MLP(width_in, width, layers, act, norm) for _ in range(dim + 1))

    def forward(self, x: Sequence[Tensor], cells: Any) -> list[Tensor]:
        check_inputs(x, cells, self.dim, self.width_in)
        return [mlp(h, cells.mask(d)) for d, (mlp, h) in enumerate(zip(self.mlps, x, strict=False))]


def molecule_encoder(
    width: int,
    atoms: Sequence[int] = (28,),
    bonds: Sequence[int] | None = (4,),
    dim: int = 2,
    reduce: str = "sum",
    dropout: float = 0.0,
) -> CellEncoder:
    """Atoms and bonds by their categories; cells without features of their own from their atoms.

    Args:
        width: features out.
        atoms: number of categories of each column of atom features; ZINC has 28 atom types.
        bonds: the same for bonds, or None to make bonds of their atoms, as in the paper's ablation.
        dim: largest dimension of cells.
        reduce: how to make cells of atoms.
        dropout: dropout on the result.
    """
    encoders: list[Module] = [Categories(list(atoms), width)]
    if dim >= 1:
        encoders.append(FromVertices(reduce) if bonds is None else Categories(list(bonds), width))
    encoders += [FromVertices(reduce) for _ in range(2, dim + 1)]
    return CellEncoder(encoders, dropout)


def cin(
    encoder: Module,
    width: int,
    layers: int,
    outputs: int = 1,
    *,
    width_in: int | None = None,
    dim: int = 2,
    plus: bool = False,
    act: str = "relu",
    norm: str = "batch",
    shared: bool = True,
    pool: str = "sum",
    dims: Sequence[int] | None = None,
    dropout: float = 0.0,
    cell_dropout: float = 0.0,
    head_dropout: float = 0.0,
    jumping: bool = False,
    counts: int = 0,
    rounds: int = 2,
) -> CIN:
    """CIN as in the paper's experiments; CIN++ with `plus`; CIN without rings with ``dim=1``.

    Args:
        encoder: see `molecule_encoder` and `cwnet.nn.encoders`.
        width: features of every layer.
        layers: number of layers.
        outputs: targets or classes.
        width_in: features the encoder gives; `width` by default.
        dim: largest dimension of cells.
        plus: whether lower messages pass too.
        act: activation by name.
        norm: "batch", "robust", "capped", "layer" or "none"; see `make_norm`.
        shared: whether upper messages read the cell they pass through ("coboundary" in the paper's tables).
        pool: "sum", "mean", "both" or "all"; see `Readout`.
        dims: dimensions that are read out; all by default.
        dropout: after every layer.
        cell_dropout: on the vector of each dimension in the readout.
        head_dropout: on the vector of the complex.
        jumping: whether to read out all layers.
        counts: columns of a fingerprint of CWL colours that is read out beside the features; see `ColourCounts`.
        rounds: of refinement for it.
    """
    conv = CINppConv if plus else CINConv
    widths = [width if width_in is None else width_in, *[width] * (layers - 1)]
    read = list(range(dim + 1)) if dims is None else list(dims)
    # A layer computes what is read, and what the layers after it hear of.
    tops = [min(dim, max(read, default=0) + layers - 1 - i) for i in range(layers)]
    seen = width * layers if jumping else width
    readout: Module = Readout(seen, 2 * width, read, pool, act, bias=not jumping, dropout=cell_dropout)
    if counts:
        readout = Beside([readout, ColourCounts(counts, 2 * width, rounds, dim, act, cell_dropout)])
    return CIN(
        encoder,
        [conv(w, width, dim, act, norm, shared, top=top) for w, top in zip(widths, tops, strict=True)],
        readout,
        Head(2 * width, outputs, head_dropout),
        dropout,
        jumping,
    )


def steady_cin(encoder: Module, width: int = 64, layers: int = 4, outputs: int = 1, **options: Any) -> CIN:
    """CIN that reads out means beside sums, under a norm that neither an odd batch nor a rare cell upsets.

    Properties of molecules are sums (of contributions to logP) and averages (of how usual their fragments are), and a
    linear map makes neither of the other. The norm is batch norm with a limit and a cap, see `BatchNorm`: under the
    plain one, cages of nested rings are predicted absurdly in some epochs.

    Args:
        encoder: see `molecule_encoder`.
        width: features of every layer.
        layers: number of layers.
        outputs: targets or classes.
        **options: of `cin`.
    """
    return cin(encoder, width, layers, outputs, **{"norm": "capped", "pool": "both", **options})


def sin(encoder: Module, width: int, layers: int, outputs: int = 1, *, dim: int = 2, **options: Any) -> CIN:
    """The simplicial network: CIN on clique complexes, ``Cliques(dim + 1)`` (Bodnar, Frasca et al., ICML 2021)."""
    return cin(encoder, width, layers, outputs, dim=dim, **options)


def gin(
    encoder: Module,
    width: int,
    layers: int,
    outputs: int = 1,
    *,
    width_in: int | None = None,
    edges: bool = False,
    act: str = "relu",
    norm: str = "batch",
    pool: str = "sum",
    dropout: float = 0.0,
    head_dropout: float = 0.0,
    jumping: bool = False,
) -> CIN:
    """GIN, or GIN-E with `edges`: the same model with messages between vertices alone.

    Args:
        encoder: must encode dimension 0, and dimension 1 for GIN-E.
        width: features of every layer.
        layers: number of layers.
        outputs: targets or classes.
        width_in: features the encoder gives; `width` by default.
        edges: whether messages read edge features.
        act: activation by name.
        norm: "batch", "robust", "capped", "layer" or "none"; see `make_norm`.
        pool: "sum", "mean", "both" or "all"; see `Readout`.
        dropout: after every layer.
        head_dropout: on the vector of the graph.
        jumping: whether to read out all layers.
    """
    first = width if width_in is None else width_in
    widths = [first, *[width] * (layers - 1)]
    convs: list[Module] = [
        GINEConv(w, width, first, act, norm) if edges else GINConv(w, width, act, norm) for w in widths
    ]
    readout = Readout(width * layers if jumping else width, 2 * width, [0], pool, act, bias=not jumping)
    return CIN(encoder, convs, readout, Head(2 * width, outputs, head_dropout), dropout, jumping)


def mlp_baseline(width_in: int = 1, width: int = 256, outputs: int = 16, dim: int = 2, act: str = "elu") -> CIN:
    """The baseline of the SR experiment: a perceptron per cell and a sum over all of them; no messages pass.

    Vertices start with ones, so edges start with 2 and rings with their length.
    """
    encoder = CellEncoder([Constant(width_in, learnt=False), *[FromVertices("sum") for _ in range(dim)]])
    readout = Readout(width, width, list(range(dim + 1)), "sum", act)
    return CIN(encoder, [CellMLP(width_in, width, dim, 2, act)], readout, Head(width, outputs))


def ring_transfer(width_in: int, width: int = 64, classes: int = 5, layers: int = 3, *, graph: bool = False) -> CIN:
    """The RingTransfer models: CIN with three layers, or GIN with as many as half the ring; a class per vertex.

    As in the published code, CIN's first layer reads features as wide as the input, and GIN has batch norm, without
    which more than a few of its layers do not learn here; CIN has no norm.

    Args:
        width_in: vertex features.
        width: features of every layer.
        classes: number of classes.
        layers: number of layers.
        graph: GIN instead of CIN.
    """
    if graph:
        convs: list[Module] = [GINConv(width, width, norm="batch") for _ in range(layers)]
        return CIN(CellEncoder([Linear(width_in, width)]), convs, None, CellHead(width, classes))
    encoder = CellEncoder([Linear(width_in, width_in), Zeros(), Zeros()])
    # Only vertices are read: the last layer needs no edges of its own, the one before it no rings.
    cell_convs = [
        CINConv(width if i else width_in, width, 2, norm="none", top=min(2, layers - 1 - i)) for i in range(layers)
    ]
    return CIN(encoder, cell_convs, None, CellHead(width, classes))


def sr_network(width: int = 16, layers: int = 3, outputs: int = 16, dim: int = 2) -> CIN:
    """The untrained CIN of the SR experiment: ELU, no norm; vertices 1, edges 2, rings their length."""
    encoder = CellEncoder([Constant(1, learnt=False), *[FromVertices("sum") for _ in range(dim)]])
    return cin(encoder, width, layers, outputs, width_in=1, dim=dim, act="elu", norm="none")


def tu_encoder(width_in: int, reduce: str = "mean", dim: int = 2) -> CellEncoder:
    """Raw vertex features as they are; higher cells from their vertices, as in the TU experiments."""
    return CellEncoder([Raw(), *[FromVertices(reduce) for _ in range(dim)]])
