"""What the experiments share: figures as JSON, where they were made, tables and pages."""

from __future__ import annotations

import json
import os
import platform
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cwnet.data._files import write_whole
from cwnet.errors import CwnetError
from cwnet.lifting._lift import num_threads
from cwnet.train._about import commit, processor, versions

__all__ = ["describe_run", "markdown_table", "mean_and_spread", "read_figures", "write_figures", "write_page"]


def describe_run(command: str) -> dict[str, Any]:
    """When, on what kind of machine and with which versions. Holds no path and no name of the machine."""
    import scipy

    return {
        "command": command,
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": commit(),
        "machine": {
            "cpu": processor(),
            "cores": num_threads(None),
            "system": platform.system(),
            "load_before": _load(),
        },
        "versions": {**versions(), "scipy": scipy.__version__},
    }


def _load() -> float | None:
    """How busy the machine was in the last minute: times are worth little on a busy one."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def write_figures(path: Path, figures: Mapping[str, Any]) -> None:
    """Write figures as JSON, whole or not at all, numbers cut to six digits, a list of them on one line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(_cut(figures), indent=1, ensure_ascii=False)
    text = re.sub(r"\[\s+([-+.,\de\s]+?)\s+\]", lambda found: f"[{' '.join(found[1].split())}]", text)
    write_whole(path, (text + "\n").encode())


def read_figures(path: Path) -> dict[str, Any]:
    """Figures that an experiment wrote."""
    if not path.exists():
        raise CwnetError(f"there are no figures at {path} yet: run the experiment without --render first")
    figures: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return figures


def write_page(path: Path, text: str) -> None:
    """Write a page, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, (text.strip("\n") + "\n").encode())


def _cut(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, Mapping):
        return {k: _cut(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_cut(v) for v in value]
    return value


def mean_and_spread(values: Sequence[float], digits: int = 1) -> str:
    """Mean and standard deviation as text.

    >>> mean_and_spread([1.0, 2.0, 3.0]), mean_and_spread([2.0])
    ('2.0 ± 1.0', '2.0')
    """
    mean = f"{statistics.fmean(values):.{digits}f}"
    return f"{mean} ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else mean


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[Any]], align: str = "") -> str:
    """A table in Markdown. `align` has one letter per column, l or r; the rest are l."""
    align = align.ljust(len(head), "l")
    rule = ["---:" if a == "r" else "---" for a in align]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in [head, rule, *rows])
