"""How far training is: a line per run that stays in its place on a terminal, lines now and then elsewhere."""

from __future__ import annotations

import sys
import time
from importlib.util import find_spec
from types import TracebackType
from typing import Any, Self

from cwnet.train._run import Progress

__all__ = ["Display", "describe"]

#: Seconds between two drawings on a terminal, and between two lines of a run elsewhere.
_REDRAW, _LINE = 0.1, 5.0
#: Lines on a terminal. Where there are more runs, those that have ended make way.
_MOST = 24


class Display:
    """Shows progress on the error stream. Use it as a context manager.

    Args:
        runs: how many there will be.
        show: whether to show anything.
    """

    def __init__(self, runs: int, show: bool = True) -> None:
        self.runs, self.show = runs, show
        self._bar: Any = None
        self._tasks: dict[str, Any] = {}
        self._told: dict[str, tuple[float, int]] = {}
        self._drawn = 0.0
        self._reasons: set[str] = set()

    def __enter__(self) -> Self:
        if self.show and (sys.stderr.isatty() or _in_notebook()):
            self._bar = _bar()
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.refresh()
            self._bar.stop()

    def update(self, progress: Progress) -> None:
        """A run has taken a step."""
        if not self.show:
            return
        now = time.monotonic()
        if self._bar is None:
            self._line(progress, now)
        elif progress.stopped or now - self._drawn > _REDRAW / max(len(self._tasks), 1):
            self._drawn = now
            self._draw(progress)

    def tell_once(self, why: str | None) -> None:
        """Say why steps are taken one operation at a time, where they could be faster; the same is not said twice."""
        if why is None or why in self._reasons:
            return
        self._reasons.add(why)
        if self.show:
            text = f"trained one operation at a time: {why}"
            print(text, file=sys.stderr, flush=True) if self._bar is None else self._bar.console.print(text)

    def _draw(self, progress: Progress) -> None:
        if progress.name not in self._tasks:
            self._tasks[progress.name] = self._bar.add_task(progress.name, visible=False, text="")
        task = self._tasks[progress.name]
        done = progress.epoch + progress.batch / max(progress.batches, 1)
        total = done if progress.stopped else progress.epochs
        visible = self.runs <= _MOST or (not progress.stopped and self._has_room_for(task))
        self._bar.update(task, completed=done, total=total, text=describe(progress), visible=visible)

    def _has_room_for(self, task: Any) -> bool:
        shown = [each.id for each in self._bar.tasks if each.visible]
        return task in shown or len(shown) < _MOST

    def _line(self, progress: Progress, now: float) -> None:
        """A line when an epoch is done, if the last one of this run was some time ago; the first and last always."""
        when, epoch = self._told.get(progress.name, (-_LINE * self.runs, -1))
        if progress.epoch == epoch or not progress.epoch:
            return
        if progress.stopped or now - when >= _LINE * min(self.runs, 10):
            self._told[progress.name] = (now, progress.epoch)
            print(f"{progress.name}: {describe(progress)}", file=sys.stderr, flush=True)


def _in_notebook() -> bool:
    """Whether this runs in a notebook that can show lines that change."""
    if "IPython" not in sys.modules or find_spec("ipywidgets") is None:
        return False
    from rich.console import Console

    return Console().is_jupyter


def _bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[text]}"),
        console=Console(stderr=True, highlight=False),
        auto_refresh=True,
        refresh_per_second=8,
    )


def describe(progress: Progress) -> str:
    """For example "epoch 12/1000  loss 0.3021  mae 0.2843 (best 0.2790)  lr 0.001  8,410/s  3 min left"."""
    words = [f"epoch {progress.epoch}/{progress.epochs}"]
    if progress.loss is not None:
        words.append(f"loss {progress.loss:.4f}")
    shown, part = (progress.val, "") if progress.val is not None else (progress.test, "test ")
    if shown is not None:
        best = "" if progress.best is None else f" (best {progress.best:.4f})"
        words.append(f"{part}{progress.metric} {shown:.4f}{best}")
    words.append(f"lr {progress.lr:.2g}")
    if progress.rate:
        words.append(f"{progress.rate:,.0f}/s")
    if progress.stopped:
        words.append(f"{_time(progress.seconds)}, {progress.stopped}")
    elif progress.left is not None:
        words.append(f"{_time(progress.left)} left")
    return "  ".join(words)


def _time(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
