"""The same training several times, each with a split and seeds of its own: how much of a figure is chance."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cwnet.data import MoleculeTable
from cwnet.data._files import write_whole
from cwnet.errors import CwnetError
from cwnet.molecules._train import Settings, Trained, train_table

__all__ = ["Replicates", "spread", "train_replicates"]


@dataclass(frozen=True, eq=False)
class Replicates:
    """What came of training several times.

    Attributes:
        trained: what came of each.
        metrics: of the test parts: per column and metric their mean, their standard deviation and all values.
        folder: where everything is.
    """

    trained: Sequence[Trained]
    metrics: dict[str, dict[str, dict[str, Any]]]
    folder: Path

    @property
    def seconds(self) -> float:
        """It took."""
        return sum(each.seconds for each in self.trained)


def train_replicates(
    table: MoleculeTable,
    out: str | Path,
    settings: Settings | None = None,
    count: int = 5,
    *,
    device: str | None = None,
    resume: bool = False,
    progress: bool = True,
) -> Replicates:
    """Train a model several times: each has its own seeds and, where the split is random, its own split.

    The folder gets a model folder for each, ``replicate-1``, ``replicate-2``, ..., and ``replicates.json`` with the
    mean and standard deviation of all figures.

    Args:
        table: as all other arguments but `count`, as in `train_table`.
        out: see there.
        settings: see there; its seed is that of the first.
        count: how often.
        device: see there.
        resume: see there.
        progress: see there.
    """
    out, settings = Path(out), settings or Settings()
    if count < 2:
        raise CwnetError(f"--replicates {count}: give at least 2, or leave it out")
    each = [replace(settings, seed=settings.seed + i * settings.ensemble) for i in range(count)]
    trained = [
        train_table(table, out / f"replicate-{i}", wishes, device=device, resume=resume, progress=progress)
        for i, wishes in enumerate(each, 1)
    ]
    found = Replicates(trained, spread([t.metrics for t in trained]), out)
    body = {
        "folders": [t.folder.name for t in trained],
        "seeds": [wishes.seed for wishes in each],
        "test": found.metrics,
    }
    write_whole(out / "replicates.json", (json.dumps(body, indent=2) + "\n").encode())
    return found


def spread(figures: Sequence[dict[str, dict[str, float]]]) -> dict[str, dict[str, dict[str, Any]]]:
    """Per column and metric the mean of several models' figures, their standard deviation, and all of them.

    Those that a model does not have, for want of test molecules with both classes, are left out.
    """
    summary: dict[str, dict[str, dict[str, Any]]] = {}
    for target in dict.fromkeys(name for found in figures for name in found):
        summary[target] = {}
        for metric in dict.fromkeys(name for found in figures for name in found.get(target, ())):
            values = [found[target][metric] for found in figures if metric in found.get(target, ())]
            std = statistics.stdev(values) if len(values) > 1 else None
            summary[target][metric] = {"mean": statistics.fmean(values), "std": std, "values": values}
    return summary
