"""How fast the main jobs are on this machine, each next to another package that can do it, in one run."""

from __future__ import annotations

import statistics
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import torch

from cwnet.chem import Featuriser, nci_smiles
from cwnet.complexes import ComplexStore
from cwnet.lifting import Rings, lift_many
from cwnet.nn import cin
from cwnet.nn.models import molecule_encoder
from cwnet.wl import certificates

__all__ = ["JOBS", "Measured", "measure"]

#: Molecules that a peer gets, of those that cwnet gets: it is asked for a rate, and would take minutes.
_PEER_SHARE = 20
_BATCH = 128


@dataclass(frozen=True)
class Measured:
    """Molecules per second of a job.

    Attributes:
        job: what is done, in words.
        rate: of cwnet.
        peer: what stands beside it; empty if there is nothing that does the same.
        peer_rate: of the peer.
    """

    job: str
    rate: float
    peer: str = ""
    peer_rate: float | None = None

    @property
    def ratio(self) -> float | None:
        """How many times as fast as the peer."""
        return self.rate / self.peer_rate if self.peer_rate else None


@dataclass(frozen=True)
class _Job:
    words: str
    peer: str
    needs: str
    prepare: Callable[[Sequence[str], ComplexStore, str], tuple[Callable[[], int], Callable[[], int] | None]]


def measure(
    jobs: Sequence[str] = (), *, molecules: int = 5000, device: str = "cpu", seconds: float = 0.5, rounds: int = 3
) -> Iterator[Measured]:
    """Measure jobs one after another; within a job, cwnet and its peer take turns.

    Args:
        jobs: their names; all of `JOBS` by default.
        molecules: how many of the molecules that come with RDKit.
        device: where to train.
        seconds: what a turn takes at least.
        rounds: how many turns each has. The median counts.

    Yields:
        The figures of every job.
    """
    smiles, store = _readable(nci_smiles()[:molecules])
    for name in jobs or JOBS:
        job = JOBS[name]
        ours, peer = job.prepare(smiles, store, device)
        calls = [ours] if peer is None or not find_spec(job.needs) else [ours, peer]
        for call in calls:
            call()
        rates: list[list[float]] = [[] for _ in calls]
        for _ in range(rounds):
            for call, found in zip(calls, rates, strict=True):
                found.append(_rate(call, seconds))
        medians = [statistics.median(found) for found in rates]
        yield Measured(job.words, medians[0], *((job.peer, medians[1]) if len(calls) > 1 else ()))


def _rate(call: Callable[[], int], seconds: float) -> float:
    """Molecules per second; a call says how many it handled."""
    count, start = 0, time.perf_counter()
    while True:
        count += call()
        elapsed = time.perf_counter() - start
        if elapsed >= seconds:
            return count / elapsed


# ------------------------------------------------------------------------------------------------ jobs


def _read(smiles: Sequence[str], store: ComplexStore, device: str) -> tuple[Callable[[], int], Callable[[], int]]:
    from rdkit.Chem import MolFromSmiles

    return lambda: len(Featuriser().pack(smiles)), lambda: sum(MolFromSmiles(text) is not None for text in smiles)


def _lift(smiles: Sequence[str], store: ComplexStore, device: str) -> tuple[Callable[[], int], Callable[[], int]]:
    graphs = _networkx(store)

    def peer() -> int:
        import networkx as nx

        return sum(1 for graph in graphs if sum(1 for _ in nx.chordless_cycles(graph, length_bound=18)) >= 0)

    return lambda: len(lift_many(store, Rings(18))), peer


def _wl(smiles: Sequence[str], store: ComplexStore, device: str) -> tuple[Callable[[], int], Callable[[], int]]:
    graphs = _networkx(store)

    def peer() -> int:
        import networkx as nx

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that hashes were others in older versions
            return sum(1 for graph in graphs if nx.weisfeiler_lehman_graph_hash(graph))

    return lambda: len(certificates(store, None, "wl")), peer


def _cwl(smiles: Sequence[str], store: ComplexStore, device: str) -> tuple[Callable[[], int], None]:
    return lambda: len(certificates(store, Rings(18))), None


def _train(smiles: Sequence[str], store: ComplexStore, device: str) -> tuple[Callable[[], int], None]:
    """A step of the paper's model for ZINC, one operation at a time."""
    lifted = lift_many(store, Rings(18))
    batch = lifted.batch(range(min(_BATCH, len(lifted)))).to(device)
    atoms, bonds = ([int(column.max()) + 1 for column in x.T] for x in lifted.x[:2] if x is not None)
    model = cin(molecule_encoder(128, atoms, bonds), 128, 4).to(device)
    optimiser = torch.optim.Adam(model.parameters(), 1e-3)

    def step() -> int:
        optimiser.zero_grad()
        model(batch).abs().mean().backward()
        optimiser.step()
        if device != "cpu":
            torch.cuda.synchronize()
        return len(batch)

    return step, None


def _readable(smiles: Sequence[str]) -> tuple[list[str], ComplexStore]:
    """Without the few that RDKit does not read, as text and as graphs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        store = Featuriser().pack(smiles, on_error="skip")
    left_out = {getattr(error, "position", None) for error in store.skipped}
    return [text for i, text in enumerate(smiles) if i not in left_out], store


def _networkx(store: ComplexStore) -> list[Any]:
    """Every so many of the molecules as graphs of networkx, if it is there."""
    if not find_spec("networkx"):
        return []
    from cwnet.complexes import to_networkx

    return [to_networkx(store[i]) for i in range(0, len(store), _PEER_SHARE)]


#: The jobs by name.
JOBS: dict[str, _Job] = {
    "read": _Job("read SMILES into features", "RDKit's parse alone", "rdkit", _read),
    "lift": _Job("attach rings of up to 18 atoms", "networkx, chordless cycles", "networkx", _lift),
    "wl": _Job("WL certificates of the graphs", "networkx, WL hashes", "networkx", _wl),
    "cwl": _Job("lift, and cellular WL certificates", "", "", _cwl),
    "train": _Job("train the paper's CIN for ZINC, a batch of 128", "", "", _train),
}
