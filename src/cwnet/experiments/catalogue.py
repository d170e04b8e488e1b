"""All experiments of the paper by name: how each is run, and how its page is written."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from cwnet.experiments._report import describe_run, markdown_table, read_figures, write_figures, write_page
from cwnet.experiments.tables import TABLES

__all__ = ["MEASURED", "Measured", "has_figures", "names", "render", "render_index"]

Tick = Callable[[str], None]


@dataclass(frozen=True)
class Measured:
    """An experiment whose figures are made in one go, and kept in one file.

    Attributes:
        title: of its page.
        help: what it does, in words.
        measure: from (device, small, tick) to figures.
        page: the function that writes the page, as "module:function".
        ticks: how often `tick` is called, for the bar.
    """

    title: str
    help: str
    measure: Callable[[str, bool, Tick], dict[str, Any]]
    page: str
    ticks: int

    def run(self, path: Path, device: str, small: bool, command: str, tick: Tick) -> None:
        """Make the figures and keep them."""
        about, start = describe_run(command), time.perf_counter()
        figures = self.measure(device, small, tick)
        about["seconds"] = time.perf_counter() - start
        write_figures(path, {"run": about, **figures})

    def render(self, path: Path, folder: Path) -> Path:
        """Write the page from figures that are kept."""
        figures = read_figures(path)
        folder.mkdir(parents=True, exist_ok=True)
        module, _, function = self.page.partition(":")
        written: Path = getattr(import_module(f"cwnet.experiments.{module}"), function)(figures, folder)
        return written


def _sr(device: str, small: bool, tick: Tick) -> dict[str, Any]:
    from cwnet.experiments import sr

    return sr.run(sr.Settings.small() if small else sr.Settings(), device=device, tick=tick)


def _cycle_counts(device: str, small: bool, tick: Tick) -> dict[str, Any]:
    from cwnet.experiments import cycle_counts

    return cycle_counts.run(small, tick)


def _lifting_times(device: str, small: bool, tick: Tick) -> dict[str, Any]:
    from cwnet.experiments import times

    return times.run_lifting(small=small, tick=tick)


def _epoch_times(device: str, small: bool, tick: Tick) -> dict[str, Any]:
    from cwnet.experiments import times

    return times.run_epochs(device, small=small, tick=tick)


def _zinc_target(device: str, small: bool, tick: Tick) -> dict[str, Any]:
    from cwnet.experiments import zinc_target

    return zinc_target.run(small, tick)


MEASURED: dict[str, Measured] = {
    "sr": Measured(
        "Strongly regular graphs",
        "Which strongly regular graphs does an untrained CIN tell apart, with rings up to 4, 5 and 6? Five seeds, next "
        "to a perceptron without messages, cellular WL and 3-WL.",
        _sr,
        "_sr_page:render",
        27,
    ),
    "cycle-counts": Measured(
        "Cycles of the Rook's and the Shrikhande graph",
        "Count cycles and induced cycles of sizes 3 to 8 and compare them with the paper's.",
        _cycle_counts,
        "cycle_counts:render",
        4,
    ),
    "zinc-target": Measured(
        "What of ZINC's target depends on the numbers of atoms",
        "Number the molecules of ZINC anew and see which targets would have come out otherwise.",
        _zinc_target,
        "zinc_target:render",
        3,
    ),
    "lifting-times": Measured(
        "Time to lift the molecular data sets",
        "Lift ZINC, molhiv and ZINC-FULL with rings up to 18, five times each, with one thread and with all.",
        _lifting_times,
        "_times_page:render_lifting",
        3,
    ),
    "epoch-times": Measured(
        "Time of an epoch on ZINC",
        "Time training and evaluation of CIN and GIN on ZINC; best on a GPU.",
        _epoch_times,
        "_times_page:render_epochs",
        4,
    ),
}


def names() -> list[str]:
    """All experiments, in the order of the paper."""
    return ["cycle-counts", "sr", *TABLES, "lifting-times", "epoch-times", "flow", "zinc-target"]


def has_figures(name: str, results: Path) -> bool:
    """Whether an experiment has figures that a page can be made of."""
    if name in TABLES:
        return any((results / name).glob("*/fold-*.json"))
    return (results / name / "figures.json").exists()


def render(name: str, results: Path, folder: Path, small: bool = False) -> Path:
    """Write the page of an experiment from the figures that are kept."""
    if name in TABLES:
        from cwnet.experiments._tables_page import render as write

        return write(name, results, folder, small)
    if name == "flow":
        from cwnet.experiments._flow_page import render as write_flow

        return write_flow(read_figures(results / "flow" / "figures.json"), folder)
    return MEASURED[name].render(results / name / "figures.json", folder)


def render_index(results: Path, folder: Path, small: bool = False) -> Path:
    """Write the pages of all experiments that have figures, and a page that lists them."""
    from cwnet.experiments._runs import read_runs
    from cwnet.experiments._tables_page import summary

    body = []
    for name in names():
        title = TABLES[name].title if name in TABLES else MEASURED[name].title if name in MEASURED else "Edge flows"
        if has_figures(name, results):
            page = render(name, results, folder, small)
            said = summary(name, read_runs(results, name)) if name in TABLES else ""
            body.append([f"[{title}]({page.name})", f"`cwnet reproduce {name}`", said])
        else:
            body.append([title, f"`cwnet reproduce {name}`", "not run yet"])
    text = (
        "# Results\n\nEvery experiment of the paper, and others (`beyond`, `peptides-func`, `flow`, `zinc-target`), "
        "with the command that makes it. The pages are written by `cwnet reproduce report` from the figures in "
        "`results/`; rows are compared with the paper's.\n\n" + markdown_table(["experiment", "command", ""], body)
    )
    if small:
        text += "\n\nThese are the small versions, for two cores; each page says how it differs."
    write_page(folder / "README.md", text)
    return folder / "README.md"
