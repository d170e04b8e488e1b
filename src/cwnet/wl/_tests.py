"""Can a test tell two graphs apart? The verdicts, certificates and classes of a whole set."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from cwnet import _core
from cwnet.complexes import CellComplex, ComplexStore
from cwnet.lifting import Cliques, Rings, as_lifting, lift_many
from cwnet.lifting._graphs import kind_of, slowly
from cwnet.lifting._lift import Liftable
from cwnet.wl._refine import Initial, adjacency_bits, certify, initial_labels, number_words, refine, refine_fast

__all__ = [
    "CERTIFICATE_VERSION",
    "Verdict",
    "certificate",
    "certificates",
    "classes",
    "complexes_for",
    "distinguish",
    "parse_test",
    "share_not_told_apart",
]

#: Certificates of the same version are the same on every machine and in every release.
CERTIFICATE_VERSION = 2

_DEFAULT = Rings(6)
_MAX_BYTES = 4 * 2**30
_SLOWLY = slowly(single=True)
_SLOWLY_IN_A_LIST = slowly()


@dataclass(frozen=True)
class Verdict:
    """What a test says of two graphs.

    Attributes:
        distinguished: whether the test tells them apart. If not, they may be isomorphic or not.
        rounds: the round in which their colour histograms came apart, or after which nothing more could change.
        test: the test, by name.
        lifting: the lifting it was run on.
    """

    distinguished: bool
    rounds: int
    test: str
    lifting: str

    def __bool__(self) -> bool:
        return self.distinguished

    def __str__(self) -> str:
        outcome = (
            f"told apart in round {self.rounds}"
            if self.distinguished
            else f"not told apart, stable after round {self.rounds}"
        )
        return f"{self.test} on {self.lifting}: {outcome}"


def distinguish(
    a: Any,
    b: Any,
    lifting: Liftable = _DEFAULT,
    test: str = "cwl",
    *,
    adjacencies: Sequence[str] = ("boundary", "upper"),
    initial: Initial = "uniform",
    mode: Literal["fast", "exact"] = "fast",
) -> Verdict:
    """Run a Weisfeiler–Lehman test on two graphs.

    Args:
        a: a graph of any kind `cwnet.lift` takes. A `CellComplex` is tested as it is, unless a lifting is given.
        b: the other one.
        lifting: which cells to attach, for "cwl".
        test: "cwl" (cellular, on the lifting), "swl" (simplicial, on the clique complex), "wl" (on the graph alone), or
            "k-fwl" for k = 1, 2, 3 (folklore; "3-wl" is another name of "2-fwl", as it is as powerful).
        adjacencies: as in `cwnet.wl.refine`.
        initial: as in `cwnet.wl.refine`.
        mode: "fast" hashes to 128 bits, "exact" compares; see `cwnet.wl.refine`. Folklore tests are always exact.

    >>> import cwnet
    >>> hexagon = (6, [(i, (i + 1) % 6) for i in range(6)])
    >>> triangles = (6, [(0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3)])
    >>> print(cwnet.distinguish(hexagon, triangles, test="wl"))
    wl on the graph: not told apart, stable after round 1
    >>> print(cwnet.distinguish(hexagon, triangles, cwnet.Rings(6)))
    cwl on Rings(6): told apart in round 0
    """
    if mode not in ("fast", "exact"):
        raise ValueError(f"mode={mode!r} is not 'fast' or 'exact'")
    kind, k = parse_test(test)
    if kind == "cwl" and mode == "fast":
        left, right = (_refine_one(g, i, lifting, initial, adjacencies) for i, g in enumerate((a, b)))
        if left is not None and right is not None:
            rounds = zip(_rounds(left), _rounds(right), strict=False)
            return _verdict(np.array([one != other for one, other in rounds]), test, repr(as_lifting(lifting)))
    store, where = complexes_for([a, b], lifting, test)
    if kind == "fwl":
        history = np.stack(_folklore(store, k, initial)[1])
        return _verdict(history[:, 0] != history[:, 1], test, where)
    if mode == "exact":
        found = refine(store, adjacencies=adjacencies, initial=initial, mode="exact")
        differ = np.array([found.histogram(0, t) != found.histogram(1, t) for t in range(len(found.colours))])
        return _verdict(differ, test, where)
    fast = refine_fast(store, adjacencies=adjacencies, initial=initial, keep_history=True, threads=1)
    first, second = np.split(fast.histograms, [fast.history_ptr[1]])
    n = min(len(first), len(second))
    # Where one complex is stable before the other, they are apart by then.
    return _verdict((first[:n] != second[:n]).any(axis=1), test, where)


def _refine_one(
    graph: Any, position: int, lifting: Liftable, initial: Initial, adjacencies: Sequence[str]
) -> bytes | None:
    """The histograms of one graph without a store in between; None where it takes one."""
    if _takes_a_store(graph, lifting, initial):
        return None
    spec, bits = as_lifting(lifting).spec.core, adjacency_bits(adjacencies)
    return _core.refine_one(graph, position, kind_of, _SLOWLY_IN_A_LIST, spec, bits, initial == "dimension")


def _takes_a_store(graph: Any, lifting: Liftable, initial: Initial) -> bool:
    as_it_is = isinstance(graph, CellComplex) and lifting is _DEFAULT
    labelled = not isinstance(initial, str) or initial not in ("uniform", "dimension")
    return as_it_is or labelled or bool(as_lifting(lifting).spec.custom)


def _rounds(histograms: bytes) -> list[bytes]:
    return [histograms[i : i + 16] for i in range(0, len(histograms), 16)]


def _verdict(differ: NDArray[np.bool_], test: str, where: str) -> Verdict:
    if differ.any():
        return Verdict(True, int(differ.argmax()), test, where)
    return Verdict(False, len(differ) - 2, test, where)  # the last round only confirmed the one before it


def certificate(graph: Any, lifting: Liftable = _DEFAULT, *, initial: Initial = "uniform") -> str:
    """A hex string that is equal for isomorphic graphs, on every machine; see `CERTIFICATE_VERSION`.

    It is a hash of the stable CWL colouring, so different certificates prove that two graphs are not isomorphic, and
    equal ones that CWL on this lifting does not tell them apart (or, with probability about 2^-100, nothing).

    Args:
        graph: as in `distinguish`.
        lifting: which cells to attach.
        initial: "features" makes certificates of labelled graphs, such as molecules. "uniform" and "dimension" make
            the same, because the stable colouring knows dimensions.

    >>> import cwnet
    >>> cwnet.certificate((3, [(0, 1), (1, 2), (2, 0)]), cwnet.Rings(6))
    '...'
    """
    if not _takes_a_store(graph, lifting, initial):
        found = _core.certify_one(graph, 0, kind_of, _SLOWLY, as_lifting(lifting).spec.core)
        if found is not None:
            return found
    return certificates([graph], lifting, initial=initial)[0]


def certificates(
    graphs: Iterable[Any] | ComplexStore,
    lifting: Liftable = _DEFAULT,
    test: str = "cwl",
    *,
    initial: Initial = "uniform",
    threads: int | None = None,
) -> list[str]:
    """The certificates of many graphs. A `ComplexStore` is tested as it is, unless a lifting is given."""
    kind, _ = parse_test(test)
    if kind == "fwl":
        raise ValueError(f"{test!r} has no certificates: it compares graphs with each other; see cwnet.wl.classes")
    store, _ = complexes_for(graphs, lifting, test, threads)
    text = certify(store, initial=initial, threads=threads).astype(">u8").tobytes().hex()
    return [text[i : i + 32] for i in range(0, len(text), 32)]


def classes(
    graphs: Iterable[Any] | ComplexStore,
    lifting: Liftable = _DEFAULT,
    test: str = "cwl",
    *,
    initial: Initial = "uniform",
    threads: int | None = None,
) -> torch.Tensor:
    """Sort graphs into classes that a test does not tell apart: a class number per graph, in order of appearance."""
    kind, k = parse_test(test)
    store, _ = complexes_for(graphs, lifting, test, threads)
    if kind == "fwl":
        values = _folklore(store, k, initial)[1][-1].astype(np.uint64)
        words = np.stack([values, values], axis=1)
    else:
        words = certify(store, initial=initial, threads=threads)
    return torch.from_numpy(number_words(words)[0])


def share_not_told_apart(class_of: torch.Tensor) -> float:
    """Of all pairs of graphs, the share that lies in one class."""
    n = class_of.numel()
    if n < 2:
        return 0.0
    sizes = torch.bincount(class_of)
    return float((sizes * (sizes - 1)).sum()) / (n * (n - 1))


def complexes_for(
    graphs: Iterable[Any] | ComplexStore, lifting: Liftable, test: str, threads: int | None = None
) -> tuple[ComplexStore, str]:
    """The complexes a test looks at, and their name: lifted by `lifting`, clique complexes, or bare graphs."""
    kind, _ = parse_test(test)
    packed = graphs if isinstance(graphs, ComplexStore) else list(graphs)
    if kind == "swl" and not isinstance(lifting, Cliques):
        return _clique_complexes(packed, threads), "the clique complex"
    if kind in ("wl", "fwl"):
        return lift_many(packed, None, threads, repeated="keep" if kind == "wl" else "raise"), "the graph"
    if lifting is _DEFAULT:
        if isinstance(packed, ComplexStore):
            return packed.to("cpu"), packed.lifting or "the complex"
        if packed and all(isinstance(g, CellComplex) for g in packed):
            return ComplexStore.from_complexes(packed).to("cpu"), "the complex"
    store = lift_many(packed, lifting, threads)
    return store, store.lifting or "the graph"


def _clique_complexes(graphs: list[Any] | ComplexStore, threads: int | None) -> ComplexStore:
    """All cliques: the bound is raised until the largest size has none."""
    base = lift_many(graphs, None, threads)
    k = 4
    while True:
        store = lift_many(base, Cliques(k), threads)
        if store.num_cells[-1] == 0:
            return store
        k *= 2


def parse_test(test: str) -> tuple[str, int]:
    """Read the name of a test: its kind ("cwl", "swl", "wl" or "fwl"), and the k of a folklore test."""
    name = test.strip().lower()
    if name in ("cwl", "swl", "wl"):
        return name, 1
    if match := re.fullmatch(r"([123])-fwl", name):
        return "fwl", int(match[1])
    if match := re.fullmatch(r"([234])-wl", name):
        return "fwl", int(match[1]) - 1
    raise ValueError(f"unknown test {test!r}: choose cwl, swl, wl, 1-fwl, 2-fwl (= 3-wl) or 3-fwl (= 4-wl)")


def _folklore(store: ComplexStore, k: int, initial: Initial) -> tuple[int, list[NDArray[np.int32]]]:
    sizes = store.cell_ptr[0].diff()
    n = int(sizes.max()) if len(store) else 0
    # Every tuple may come to have a colour of its own, and a colour is what the tuple sees.
    need = int((sizes.double() ** k).sum()) * 4 + n ** (k + 1) * 4 * max(k, 4 if k == 1 else k)
    if need > _MAX_BYTES:
        raise MemoryError(
            f"{k}-fwl on a graph of {n} vertices may take {need / 1e9:,.1f} GB ({n}^{k + 1} colours seen); "
            f"the limit is {_MAX_BYTES / 1e9:.1f} GB. Use a smaller k, or cwl"
        )
    labels = initial_labels(store, initial)
    return _core.refine_folklore(
        store.cell_ptr[0].numpy(), store.cell_ptr[1].numpy(), store.boundaries[0].idx.numpy(), k, labels[0], labels[1]
    )
