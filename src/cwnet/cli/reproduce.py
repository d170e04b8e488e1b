"""``cwnet reproduce``: run an experiment, keep its figures and write its page. One sub-verb per experiment."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import torch
import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from cwnet.cli._shared import SideBySideOption, console, paragraphs, typed
from cwnet.errors import CwnetError
from cwnet.experiments import catalogue
from cwnet.experiments.tables import TABLES

__all__ = ["add_to"]

#: Epochs of the small version of the flow experiment.
_SMALL_FLOW = 10

SeedsOption = Annotated[int, typer.Option(help="How many seeds, from 0 on.", min=1)]
DeviceOption = Annotated[str, typer.Option("--device", help="Where to run: cpu, cuda, cuda:1, mps.", metavar="DEVICE")]
SmallOption = Annotated[
    bool, typer.Option("--small", help="A version for two cores and a few minutes; the page says how it differs.")
]
ResultsOption = Annotated[
    Path | None,
    typer.Option(
        "--results",
        help="Where figures are kept, in a folder per experiment. [dim]By default results, and results/small for small "
        "versions.[/dim]",
        metavar="FOLDER",
        show_default=False,
    ),
]
PageOption = Annotated[
    Path | None,
    typer.Option(
        "--page",
        help="Where the page and its picture go. By default docs/results, if there is such a folder, and next to the "
        "figures otherwise.",
        metavar="FOLDER",
        show_default=False,
    ),
]
AutoOption = Annotated[str, typer.Option("--device", help="Where to run.", metavar="auto|cpu|cuda")]
WorkOption = Annotated[
    Path, typer.Option("--work", help="Where checkpoints go; interrupted runs go on from there.", metavar="FOLDER")
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
RenderOption = Annotated[bool, typer.Option("--render", help="Only write the page anew, from figures kept before.")]


def flow(
    seeds: SeedsOption = 3,
    device: DeviceOption = "cpu",
    epochs: Annotated[int | None, typer.Option(help="Epochs of training.", min=1, show_default=False)] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            help="Processes; by default as many as cores on the CPU, and one elsewhere.", min=1, show_default=False
        ),
    ] = None,
    results: ResultsOption = None,
    page: PageOption = None,
    render: RenderOption = False,
) -> None:
    """Classify edge flows on a complex with two holes, in orientations that differ between training and test.

    Orientation-equivariant and -invariant networks against plain ones. About three minutes on two cores.
    """
    from cwnet.experiments import flow as experiment

    path = _results(results, small=False) / "flow" / "figures.json"
    if not render:
        _check_device(device)
        settings = experiment.Settings()
        settings = replace(settings, epochs=epochs or settings.epochs)
        _run_flow(path, settings, seeds, device, _workers(workers, device))
    written = catalogue.render("flow", path.parents[1], _page_folder(page, path.parent))
    typer.echo(f"Wrote {path} and {written}." if not render else f"Wrote {written}.")


def _table_command(name: str) -> Callable[..., None]:
    """The command of one of the paper's tables of trained networks."""

    def reproduce(
        rows: Annotated[
            str | None, typer.Option(metavar="A,B", help="Some rows only. By default all.", show_default=False)
        ] = None,
        seeds: Annotated[
            int | None,
            typer.Option(help="How many seeds, from 0 on. By default the paper's.", min=1, show_default=False),
        ] = None,
        device: AutoOption = "auto",
        share: Annotated[
            str,
            typer.Option(
                "--share",
                metavar="I/N",
                help="Train the I-th of N equal shares of the runs: start N processes, or a job array, with one each. "
                "The page is written by [bold]cwnet reproduce report[/bold] when they are done.",
            ),
        ] = "1/1",
        side_by_side: SideBySideOption = None,
        small: SmallOption = False,
        results: ResultsOption = None,
        page: PageOption = None,
        render: RenderOption = False,
        work: WorkOption = Path("runs/reproduce"),
        quiet: QuietOption = False,
    ) -> None:
        chosen = [key.strip() for key in rows.split(",")] if rows else []
        part = _share(share)
        if not render:
            _run(name, device, small, results, work, quiet, chosen, seeds, part, side_by_side)
        if part == (1, 1):
            _write(name, small, results, page)

    return reproduce


def _measured_command(name: str) -> Callable[..., None]:
    """The command of an experiment that is measured in one go."""

    def reproduce(
        device: AutoOption = "auto",
        small: SmallOption = False,
        results: ResultsOption = None,
        page: PageOption = None,
        render: RenderOption = False,
        quiet: QuietOption = False,
    ) -> None:
        if not render:
            _run(name, device, small, results, Path("runs/reproduce"), quiet)
        _write(name, small, results, page)

    return reproduce


def everything(
    device: AutoOption = "auto",
    small: SmallOption = False,
    results: ResultsOption = None,
    page: PageOption = None,
    work: WorkOption = Path("runs/reproduce"),
    quiet: QuietOption = False,
) -> None:
    """Run all experiments one after another, and write all pages.

    With --small it takes some 9 minutes on two cores. What is there already is not run again.
    """
    for name in catalogue.names():
        start = time.perf_counter()
        if name in TABLES or not catalogue.has_figures(name, _results(results, small)):
            _run(name, device, small, results, work, quiet)
        typer.echo(f"{name}: {time.perf_counter() - start:.0f} s")
    report(small, results, page)


def report(small: SmallOption = False, results: ResultsOption = None, page: PageOption = None) -> None:
    """Write all pages anew, and one that lists them, from figures kept before."""
    kept = _results(results, small)
    written = catalogue.render_index(kept, _page_folder(page, kept / "pages", small), small)
    typer.echo(f"Wrote {written}.")


def _run(
    name: str,
    device: str,
    small: bool,
    results: Path | None,
    work: Path,
    quiet: bool,
    rows: Sequence[str] = (),
    seeds: int | None = None,
    share: tuple[int, int] = (1, 1),
    side_by_side: int | None = None,
) -> None:
    place = ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
    _check_device(place)
    kept = _results(results, small)
    if name in TABLES:
        from cwnet.experiments._runs import run_table

        run_table(
            name, rows=rows, seeds=seeds, device=place, results=kept, work=work / "small" if small else work,
            small=small, share=share, side_by_side=side_by_side, command=typed(), progress=not quiet,
        )  # fmt: skip
    elif name == "flow":
        from cwnet.experiments import flow as experiment

        settings = experiment.Settings()
        if small:
            settings = replace(settings, epochs=_SMALL_FLOW)
        _run_flow(kept / "flow" / "figures.json", settings, 1 if small else 3, place, _workers(None, place))
    else:
        measured = catalogue.MEASURED[name]
        with _progress(measured.ticks, quiet) as tick:
            measured.run(kept / name / "figures.json", place, small, typed(), tick)


def _write(name: str, small: bool, results: Path | None, page: Path | None) -> None:
    kept = _results(results, small)
    written = catalogue.render(name, kept, _page_folder(page, kept / name, small), small)
    typer.echo(f"Figures are in {kept / name}, the page is {written}.")


def _run_flow(path: Path, settings: Any, seeds: int, device: str, workers: int) -> None:
    from cwnet.experiments import flow as experiment
    from cwnet.experiments._report import describe_run, write_figures

    run = describe_run(typed())
    start = time.perf_counter()
    with _progress(seeds * len(experiment.MODELS)) as tick:
        figures = experiment.run(settings, range(seeds), device, workers=workers, tick=tick)
    run["seconds"] = time.perf_counter() - start
    write_figures(path, {"run": run, **figures})


def _results(folder: Path | None, small: bool) -> Path:
    return folder or (Path("results/small") if small else Path("results"))


def _share(text: str) -> tuple[int, int]:
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if not found or not 1 <= int(found[1]) <= int(found[2]):
        raise CwnetError(f"--share {text}: write I/N with I from 1 to N, such as 2/8 for the second of eight shares")
    return int(found[1]), int(found[2])


def _workers(workers: int | None, device: str) -> int:
    return workers or (len(os.sched_getaffinity(0)) if device == "cpu" and hasattr(os, "sched_getaffinity") else 1)


def _check_device(device: str) -> None:
    try:
        torch.zeros(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise CwnetError(f"--device {device} can not be used: {reason}") from None


def _page_folder(page: Path | None, figures: Path, small: bool = False) -> Path:
    """Where a page goes: where it is wished, else with the others, else in the folder of its figures."""
    usual = Path("docs/results")
    return page or (usual if usual.is_dir() and not small else figures)


@contextmanager
def _progress(total: int, quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """A bar on the terminal, where someone is looking."""
    columns = (TextColumn("{task.description:32}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    out = console(stderr=True)
    with Progress(*columns, console=out, transient=True, disable=quiet or not out.is_terminal) as progress:
        task = progress.add_task("", total=total)
        yield lambda text: progress.update(task, advance=1, description=text)


def add_to(app: typer.Typer) -> None:
    """Add the verb and its sub-verbs to the command."""
    reproduce = typer.Typer(
        no_args_is_help=True,
        help="Run an experiment of the paper and write its page of results.",
        epilog="For example: cwnet reproduce zinc --rows cin,cin-small --seeds 10 --device cuda\n\n"
        "cwnet reproduce all --small\n\ncwnet reproduce flow --seeds 5",
        rich_markup_mode="rich",
    )
    reproduce.command("flow", help=paragraphs(flow.__doc__))(flow)
    for name, table in TABLES.items():
        reproduce.command(name, help=f"{table.title}: {table.protocol}")(_table_command(name))
    for name, measured in catalogue.MEASURED.items():
        reproduce.command(name, help=measured.help)(_measured_command(name))
    reproduce.command("all", help=paragraphs(everything.__doc__))(everything)
    reproduce.command("report", help=paragraphs(report.__doc__))(report)
    app.add_typer(reproduce, name="reproduce")
