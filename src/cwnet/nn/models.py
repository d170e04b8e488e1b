"""Models by composition: an encoder, convolutions, a readout and a head. Presets compose the paper's and ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

from cwnet.complexes import CellComplex, collate
from cwnet.complexes._batch import ComplexBatch
from cwnet.nn._module import Module, reset_parts
from cwnet.nn._norm import NormName
from cwnet.nn.colours import ColourCounts
from cwnet.nn.conv import CellMLP, CINConv, CINppConv, GINConv, GINEConv
from cwnet.nn.encoders import Categories, CellEncoder, FromVertices
from cwnet.nn.joined import Joined
from cwnet.nn.per_slot import PerSlot
from cwnet.nn.readout import Beside, CellHead, Head, Readout

__all__ = ["CIN", "PRESETS", "Options", "Preset", "cin", "gin", "mlp", "molecule_encoder", "sin", "steady_cin"]


class CIN(Module):
    r"""A CW Network: encode, convolve, read out, predict.

        h⁰ = encoder(X),   hˡ⁺¹ = conv_l(hˡ, X),   y = head(readout(hᴸ))

    All four parts are modules; any of them can be one's own. Without a readout the head sees the cells (`CellHead`).

    Args:
        encoder: from a batch to one feature tensor per dimension.
        convs: layers from features to features.
        readout: from features to a vector per complex; None for targets of cells.
        head: from that vector (or from the cells) to the output; None to give it as it is.
        dropout: dropout after every layer.
        jumping: whether the readout sees the outputs of all layers, side by side.
        check_finite: whether to refuse NaN and infinite features, at the cost of a look at all of them.
    """

    def __init__(
        self,
        encoder: Module,
        convs: Sequence[Module],
        readout: Module | None = None,
        head: Module | None = None,
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
        if self.readout is None and self.head is None:
            raise ValueError("a model needs a readout or a head: without both there is nothing to predict with")
        if self.readout is None:
            out: Tensor = self.head(x, batch)  # type: ignore[misc]
        else:
            out = self.readout(x, batch)
            out = out if self.head is None else self.head(out)
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


def _as_batch(batch: Any) -> ComplexBatch:
    if isinstance(batch, CellComplex):
        return collate([batch])
    if not isinstance(batch, ComplexBatch):
        kind = type(batch).__name__
        raise TypeError(
            f"a model takes a CellComplex or a ComplexBatch, not {kind}: lift graphs first, as in "
            "model(cwnet.lift_many(graphs, cwnet.Rings(6)).batch())"
        )
    return batch


def _check_finite(batch: ComplexBatch) -> None:
    for d, x in enumerate(batch.x):
        if x is not None and x.is_floating_point() and not bool(torch.isfinite(x).all()):
            at = int((~torch.isfinite(x)).reshape(x.shape[0], -1).any(1).nonzero()[0])
            owner = int(batch.complex_of(d)[at])
            raise ValueError(
                f"x[{d}] of complex {owner} is NaN or infinite at cell {at - int(batch.cell_ptr[d][owner])}"
            )


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


# ------------------------------------------------------------------------------------------------ presets


@dataclass(frozen=True)
class Options:
    """What presets have in common: each takes these as keywords, and a recipe as keys of ``[model]``.

    Attributes:
        width_in: features the encoder gives; the width of the layers by default.
        act: activation by name.
        norm: "batch", "robust", "capped", "layer" or "none"; see `make_norm`.
        shared: whether upper messages read the cell they pass through ("coboundary" in the paper's tables).
        pool: "sum", "mean", "max", "both" or "all"; see `Readout`.
        dims: dimensions that are read out; all by default.
        cells: the dimension whose cells are predicted for, one by one; None to predict for complexes.
        jumping: whether to read out all layers.
        dropout: after every layer.
        cell_dropout: on the vector of each dimension in the readout.
        head_dropout: on the vector of the complex, or of the cell that is predicted for.
        counts: columns of a fingerprint of CWL colours that is read out beside the features; see `ColourCounts`.
        rounds: of refinement for it.
        numbers: columns of `complex_x`, features of complexes as wholes, that are joined to the readout; see `Joined`.
        slots: parts of complexes that are disjoint unions, whose readouts are joined; see `PerSlot`.
    """

    width_in: int | None = None
    act: Literal["relu", "elu", "tanh", "silu"] = "relu"
    norm: NormName = "batch"
    shared: bool = True
    pool: Literal["sum", "mean", "max", "both", "all"] = "sum"
    dims: tuple[int, ...] | None = None
    cells: int | None = None
    jumping: bool = False
    dropout: float = 0.0
    cell_dropout: float = 0.0
    head_dropout: float = 0.0
    counts: int = 0
    rounds: int = 2
    numbers: int = 0
    slots: int = 1

    def widths(self, width: int, layers: int) -> list[int]:
        """The features each layer is given."""
        return [self.width_in or width, *[width] * (layers - 1)]

    def read(self, dim: int) -> list[int]:
        """The dimensions whose cells are looked at in the end."""
        if self.cells is not None:
            return [self.cells]
        return list(range(dim + 1)) if self.dims is None else list(self.dims)

    def readout(self, width: int, layers: int, dim: int) -> Module | None:
        """From the cells of `layers` layers to a vector of a complex, twice as wide; None where cells have targets."""
        if self.cells is not None:
            if self.numbers or self.slots > 1:
                raise ValueError(
                    f"numbers={self.numbers}, slots={self.slots}: they go with the vector of a complex, not with cells"
                )
            return None
        seen = width * layers if self.jumping else width
        features: Module = Readout(
            seen, 2 * width, self.read(dim), self.pool, self.act, not self.jumping, self.cell_dropout
        )
        if self.counts:
            if self.slots > 1:
                raise ValueError(f"counts={self.counts}: colours are counted in whole complexes, and there are slots")
            counts = ColourCounts(self.counts, 2 * width, self.rounds, dim, self.act, self.cell_dropout)
            features = Beside([features, counts])
        if self.slots > 1:
            features = PerSlot(features, self.slots)
        if self.numbers or self.slots > 1:
            features = Joined(features, 2 * width * self.slots, self.numbers, 2 * width, self.act)
        return features

    def head(self, width: int, layers: int, outputs: int) -> Module:
        """From that vector, or from cells, to the outputs."""
        if self.cells is None:
            return Head(2 * width, outputs, self.head_dropout)
        return CellHead(width * layers if self.jumping else width, outputs, self.cells, self.head_dropout)


def cin(
    encoder: Module, width: int, layers: int, outputs: int = 1, *, dim: int = 2, plus: bool = False, **options: Any
) -> CIN:
    """CIN as in the paper's experiments; CIN++ with `plus`; CIN without rings with ``dim=1``.

    Args:
        encoder: see `molecule_encoder` and `cwnet.nn.encoders`.
        width: features of every layer.
        layers: number of layers.
        outputs: targets or classes.
        dim: largest dimension of cells.
        plus: whether lower messages pass too.
        **options: see `Options`.
    """
    given = Options(**options)
    conv = CINppConv if plus else CINConv
    # A layer computes what is read, and what the layers after it hear of.
    tops = [min(dim, max(given.read(dim), default=0) + layers - 1 - i) for i in range(layers)]
    readout = given.readout(width, layers, dim)
    convs = [
        conv(w, width, dim, given.act, given.norm, given.shared, top=top)
        for w, top in zip(given.widths(width, layers), tops, strict=True)
    ]
    return CIN(encoder, convs, readout, given.head(width, layers, outputs), given.dropout, given.jumping)


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
    return cin(encoder, width, layers, outputs, **{**_STEADY, **options})


_STEADY: dict[str, Any] = {"norm": "capped", "pool": "both"}


def sin(encoder: Module, width: int, layers: int, outputs: int = 1, **options: Any) -> CIN:
    """The simplicial network: CIN on clique complexes, ``Cliques(dim + 1)`` (Bodnar, Frasca et al., ICML 2021)."""
    return cin(encoder, width, layers, outputs, **options)


def gin(encoder: Module, width: int, layers: int, outputs: int = 1, *, edges: bool = False, **options: Any) -> CIN:
    """GIN, or GIN-E with `edges`: the same model with messages between vertices alone.

    Args:
        encoder: must encode dimension 0, and dimension 1 for GIN-E.
        width: features of every layer.
        layers: number of layers.
        outputs: targets or classes.
        edges: whether messages read edge features.
        **options: see `Options`; vertices alone are read, and no colours are counted.
    """
    given = Options(**options)
    if given.counts:
        raise ValueError(f"counts={given.counts}: GIN counts no colours of cells; take cin")
    widths = given.widths(width, layers)
    convs: list[Module] = [
        GINEConv(w, width, widths[0], given.act, given.norm) if edges else GINConv(w, width, given.act, given.norm)
        for w in widths
    ]
    return CIN(
        encoder, convs, given.readout(width, layers, 0), given.head(width, layers, outputs), given.dropout,
        given.jumping,
    )  # fmt: skip


def mlp(encoder: Module, width: int, layers: int, outputs: int = 1, *, dim: int = 2, **options: Any) -> CIN:
    """A perceptron on every cell by itself and a sum over all of them: the baseline in which no messages pass.

    Args:
        encoder: see `cwnet.nn.encoders`.
        width: features of every layer, and of the complex.
        layers: of the perceptron.
        outputs: targets or classes.
        dim: largest dimension of cells.
        **options: see `Options`; no colours are counted, nothing is joined, and cells are not predicted for.
    """
    given = Options(**options)
    if given.counts or given.numbers or given.slots > 1 or given.cells is not None:
        raise ValueError(
            "a perceptron on every cell counts no colours, joins no numbers and predicts for complexes: take cin"
        )
    layer = CellMLP(given.width_in or width, width, dim, layers, given.act, given.norm)
    readout = Readout(width, width, given.read(dim), given.pool, given.act, dropout=given.cell_dropout)
    return CIN(encoder, [layer], readout, Head(width, outputs, given.head_dropout), given.dropout)


class Preset(NamedTuple):
    """A model that a recipe can ask for by name.

    Attributes:
        make: called with (encoder, width, layers, outputs) and options by name.
        top: the largest dimension of cells it looks at; None for any, which it takes as `dim`.
        defaults: where they are not those of `cwnet.train.ModelRecipe`; with a preset among them, for which this one is
            short.
    """

    make: Callable[..., CIN]
    top: int | None = None
    defaults: Mapping[str, Any] = {}


PRESETS: dict[str, Preset] = {
    "cin": Preset(cin),
    "cin++": Preset(partial(cin, plus=True)),
    "steady": Preset(steady_cin, defaults={"preset": "cin", "layers": 4, **_STEADY}),
    "sin": Preset(sin),
    "gin": Preset(gin, top=0),
    "gin-e": Preset(partial(gin, edges=True), top=1),
    "mlp": Preset(mlp),
}
