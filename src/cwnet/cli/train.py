"""`cwnet train`: train a recipe."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from cwnet.cli._shared import console, paragraphs
from cwnet.errors import CwnetError

__all__ = ["add_to"]


def train(
    recipe: Annotated[
        str | None,
        typer.Argument(
            metavar="RECIPE",
            help="A TOML file, or the name of a recipe that comes with cwnet: see [b]--list[/b].",
            show_default=False,
        ),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Change a value of the recipe, as in train.lr=1e-3, model.width=64 or data.lifting=rings:6. "
            "May be given again.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for all that comes of it; by default runs/NAME-1, -2, ...", show_default=False),
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option(
            metavar="0-9 | 3,5", help="A run for each seed, instead of those of the recipe.", show_default=False
        ),
    ] = None,
    device: Annotated[str, typer.Option(metavar="auto|cpu|cuda", help="Where to compute.")] = "auto",
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run that is in --out.")] = False,
    side_by_side: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Runs at once. By default all on a GPU and one on a CPU; results do not depend on it.",
            show_default=False,
        ),
    ] = None,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Write curves for TensorBoard too.")] = False,
    show: Annotated[bool, typer.Option("--show", help="Print the recipe, with all changes, and stop.")] = False,
    list_them: Annotated[bool, typer.Option("--list", help="List the recipes that come with cwnet, and stop.")] = False,
) -> None:
    """Train a network as a recipe says.

    A recipe is a TOML file with the sections data, model, train, schedule and stop; all but data.name has defaults.
    The folder gets the recipe as it was run, checkpoints, curves (CSV and PNG), the predictions of the test part and
    run.json with every figure.

    Ctrl-C finishes the step at hand and writes a checkpoint; the same command with --resume goes on from there, to the
    same result.

    Several processes: torchrun --nproc-per-node 2 -m cwnet train RECIPE --out DIR
    """
    from cwnet.train import _distributed as processes
    from cwnet.train import fit, load_recipe
    from cwnet.train._errors import Interrupted
    from cwnet.train._recipe import shipped

    if list_them:
        _list(shipped())
        return
    if recipe is None:
        raise CwnetError(f"name a recipe: a TOML file, or one of {', '.join(shipped())}")
    if device not in ("auto", "cpu") and not re.fullmatch(r"cuda(:\d+)?", device):
        raise CwnetError(f"--device {device}: write auto, cpu or cuda")
    plan = load_recipe(recipe, changes or [])
    if seeds is not None:
        plan = plan.with_seeds(_read_seeds(seeds))
    if show:
        typer.echo(plan.to_toml(), nl=False)
        return
    if resume and out is None:
        raise CwnetError("--resume needs --out: the folder of the run to go on with")
    if out is None and processes.launched():
        raise CwnetError("several processes need --out: a folder that all of them see")
    folder = out if out is not None else _next_folder(plan.name)
    try:
        results = fit(
            plan, out=folder, device=device, resume=resume, side_by_side=side_by_side, tensorboard=tensorboard
        )
    except Interrupted as stopped:
        if processes.is_first():
            typer.echo(str(stopped), err=True)
        raise typer.Exit(128 + stopped.signal) from None
    if processes.is_first():
        _print(results, folder)


def _list(names: Sequence[str]) -> None:
    from cwnet.train import load_recipe

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("recipe")
    table.add_column("what")
    for name in names:
        table.add_row(name, load_recipe(name).notes)
    console().print(table)


def _read_seeds(text: str) -> list[int]:
    """Numbers and ranges, separated by commas."""
    seeds: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", part)
        if match is None:
            raise CwnetError(f"--seeds {text}: {part!r} is not a seed; write 0-9, or 3,5")
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or last - first >= 10_000:
            raise CwnetError(f"--seeds {text}: {part!r} goes from {first} to {last}")
        seeds += range(first, last + 1)
    return list(dict.fromkeys(seeds))


def _next_folder(name: str) -> Path:
    """runs/NAME-1, or the first number after it that is free."""
    stem = re.sub(r"[^A-Za-z0-9._+-]+", "-", name) or "run"
    number = 1
    while Path("runs", f"{stem}-{number}").exists():
        number += 1
    return Path("runs", f"{stem}-{number}")


def _print(results: Sequence[Any], folder: Path) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    heads = ("run", "epochs", "best epoch", "val at best", "test at best", "val at stop", "test at stop", "seconds")
    for head in heads:
        table.add_column(head, justify="left" if head == "run" else "right")
    folds = len({result.fold for result in results}) > 1
    for result in results:
        name = f"fold {result.fold} seed {result.seed}" if folds else f"seed {result.seed}"
        figures = (result.val_at_best, result.test_at_best, result.val_at_stop, result.test_at_stop)
        best = "–" if result.best_epoch is None else str(result.best_epoch)
        table.add_row(name, str(result.epochs), best, *map(_number, figures), f"{result.seconds:,.1f}")
    out = console()
    out.print(table)
    tests = [result.test for result in results if result.test is not None]
    if tests:
        spread = f" ± {statistics.stdev(tests):.4f} over {len(tests)} runs" if len(tests) > 1 else ""
        out.print(f"\ntest {results[0].metric}: {statistics.fmean(tests):.4f}{spread}")
    out.print(f"Everything is in {folder}", soft_wrap=True)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"


def add_to(app: typer.Typer) -> None:
    """Add the verb to the command."""
    app.command(
        "train",
        help=paragraphs(train.__doc__),
        epilog="For example: cwnet train zinc-cin-small --seeds 0-3 --set train.epochs=50 --out runs/small",
        no_args_is_help=True,
    )(train)
