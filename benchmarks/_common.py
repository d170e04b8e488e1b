"""What the benchmarks share: timing in turns, a description of the machine, and writing figures down."""

from __future__ import annotations

import gc
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

__all__ = [
    "ROOT",
    "Timing",
    "describe_run",
    "markdown_table",
    "measured",
    "peak_memory",
    "read_json",
    "relative",
    "rounded",
    "time_in_turn",
    "write_json",
    "write_text",
]

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Timing:
    """Seconds per call: the median over rounds, and the fastest and slowest round."""

    median: float
    fastest: float
    slowest: float
    rounds: int

    def rates(self, items: int) -> dict[str, float | int]:
        """The same as items per second, for a call that handles so many items."""
        return {
            "per_second": items / self.median,
            "slowest": items / self.slowest,
            "fastest": items / self.fastest,
            "rounds": self.rounds,
        }


def time_in_turn(
    calls: Mapping[Any, Callable[[], object]],
    rounds: int,
    seconds: float,
    after_round: Callable[[], object] = lambda: None,
) -> dict[Any, Timing]:
    """Time several calls side by side.

    Each round gives every call its turn, so a slow moment of the machine hits all of them. A turn repeats its
    call for about `seconds` and counts as one sample. All calls run once before the first round.

    The garbage collector stays on, as it is for users. But it does not walk the inputs that lie ready: that
    would make a call pay for the size of its benchmark.
    """
    for call in calls.values():
        call()
    samples: dict[Any, list[float]] = {name: [] for name in calls}
    gc.collect()
    gc.freeze()
    try:
        for _ in range(rounds):
            for name, call in calls.items():
                samples[name].append(_turn(call, seconds))
            after_round()
    finally:
        gc.unfreeze()
    return {name: Timing(statistics.median(s), min(s), max(s), len(s)) for name, s in samples.items()}


def _turn(call: Callable[[], object], seconds: float) -> float:
    count = 0
    start = time.perf_counter()
    while True:
        call()
        count += 1
        elapsed = time.perf_counter() - start
        if elapsed >= seconds:
            return elapsed / count


def peak_memory() -> int:
    """The most memory this process has held so far (ru_maxrss), in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def describe_run(command: str, packages: Iterable[str]) -> dict[str, Any]:
    """Where, when and with what the figures were made. Holds no path and no name of the machine."""
    return {
        "command": command,
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": _commit(),
        "machine": {
            "cpu": _cpu_model(),
            "cores": _cores(),
            "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
            "system": platform.system(),
            "load_before": round(os.getloadavg()[0], 2),
        },
        "versions": {"python": platform.python_version()} | {p: _version(p) for p in packages},
    }


def _commit() -> dict[str, Any]:
    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()

    try:
        return {"id": git("rev-parse", "HEAD"), "changed_since": bool(git("status", "--porcelain", "src", "csrc"))}
    except (OSError, subprocess.CalledProcessError):  # a copy without its history: whoever made it may say
        return {"id": os.environ.get("CWNET_COMMIT"), "changed_since": None}


def _cpu_model() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return getattr(sys.modules.get(package.replace("-", "_")), "__version__", None)


def relative(path: Path) -> str:
    """A path as seen from the root of the repository."""
    return path.resolve().relative_to(ROOT).as_posix()


def read_json(path: Path) -> dict[str, Any]:
    """Figures that a benchmark wrote."""
    result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return result


def write_json(path: Path, figures: Mapping[str, Any]) -> None:
    """Write figures, with numbers cut to six digits."""
    write_text(path, json.dumps(_cut(figures), indent=1, ensure_ascii=False))


def write_text(path: Path, text: str) -> None:
    """Write a text file, making its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.rstrip("\n") + "\n", encoding="utf-8")


def _cut(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, Mapping):
        return {k: _cut(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_cut(v) for v in value]
    return value


def measured(
    stored: Path, measure: Callable[[], Mapping[str, Any]], render: bool, problems: type[Exception]
) -> dict[str, Any]:
    """Measure and store figures, or only read those stored before; what goes wrong ends the script in one line."""
    if not render:
        try:
            write_json(stored, measure())
        except problems as error:
            raise SystemExit(str(error)) from None
    elif not stored.exists():
        raise SystemExit(f"There are no figures at {relative(stored)} yet: run without --render first.")
    return read_json(stored)


def rounded(value: float, digits: int = 3) -> str:
    """A number with so many digits and commas at thousands.

    >>> rounded(1234567), rounded(0.98765), rounded(12.0)
    ('1,230,000', '0.988', '12')
    """
    cut = float(f"{value:.{digits}g}")
    return f"{cut:,.0f}" if cut == int(cut) else f"{cut:,}"


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[Any]], align: str = "") -> str:
    """A table in Markdown. `align` has one letter per column, l or r; the rest are l."""
    align = align.ljust(len(head), "l")
    rule = ["---:" if a == "r" else "---" for a in align]
    return "\n".join("| " + " | ".join(map(str, row)) + " |" for row in [head, rule, *rows])
