"""`cwnet tune`: search the settings of a table's model."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from cwnet.cli._shared import DeviceOption, SmilesColumnOption, check_device, console, is_table, paragraphs
from cwnet.cli._train_table import TableOptions, _read
from cwnet.errors import CwnetError

if TYPE_CHECKING:
    from cwnet.molecules import Tuned

__all__ = ["add_to"]


def tune(
    source: Annotated[
        str,
        typer.Argument(
            metavar="TABLE",
            help="A table of molecules (.csv .tsv .smi .parquet, also .gz).",
            show_default=False,
        ),
    ],
    smiles_column: SmilesColumnOption = None,
    target_columns: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="The columns to learn. [dim]By default all columns of numbers.[/dim]",
            show_default=False,
        ),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(
            metavar="regression|classification",
            help="What the columns are. [dim]By default classes if they hold text, or 0 and 1 only.[/dim]",
            show_default=False,
        ),
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(
            metavar="random|scaffold|column:NAME|file:PATH",
            help="Which molecules to train, choose and test by, as in cwnet train. The test part is left out.",
            show_default=False,
        ),
    ] = None,
    trials: Annotated[int, typer.Option(metavar="N", help="Candidates, the default settings among them.")] = 20,
    minutes: Annotated[
        float | None,
        typer.Option(
            metavar="M",
            help="About how long to search: after its share a round begins no new trial, but has at least two. "
            "[dim]By default as long as it takes.[/dim]",
            show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Of the split, the networks and the candidates.")] = 0,
    ensemble: Annotated[
        int | None,
        typer.Option(metavar="N", help="Networks of every candidate, instead of a search.", show_default=False),
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Of the last round; those before it have fewer. [dim]By default those of cwnet train.[/dim]",
            show_default=False,
        ),
    ] = None,
    rings: Annotated[
        str | None,
        typer.Option(metavar="KIND:SIZE", help="Which rings are cells, instead of a search.", show_default=False),
    ] = None,
    balance: Annotated[
        bool, typer.Option("--balance", help="Let rare classes weigh as much as frequent ones.")
    ] = False,
    no_trees: Annotated[bool, typer.Option("--no-trees", help="Candidates without decision trees only.")] = False,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="A value of the recipe or the trees that all candidates have, as in model.width=64. May be given "
            "again.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder for all that comes of it. [dim]By default tuned-TABLE.[/dim]", show_default=False),
    ] = None,
    device: DeviceOption = "auto",
    workers: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Trials side by side, in processes (pip install cwnet\\[scale]); results do not depend on it. "
            "[dim]By default 1.[/dim]",
            show_default=False,
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the search that is in --out.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Search settings for a table of molecules: width, layers, learning rate, dropout, norm, rings, ensemble and trees.

    Candidates are drawn at random around the default settings and trained with few epochs. The better third goes on
    with three times as many, twice. The default settings are in every round, so on the validation part the winner is
    never worse. What an option or --set fixes is not searched. The test part is left out before the first trial.

    The folder gets recipe.toml, which cwnet train takes with --recipe; trials.csv with all trials; trials.png, which
    shows what mattered; and a journal. A search that was stopped, even by kill -9, goes on with --resume to the same
    winner; --resume with more --trials searches on.

    The validation part of a small table is small, and the best of many figures is partly luck. Try the winner on the
    test part once, beside the default.
    """
    from cwnet.molecules import Settings, tune_table
    from cwnet.train._errors import Interrupted

    check_device(device)
    if not is_table(source):
        raise CwnetError(f"{source} is not a table of molecules: its name ends in none of .csv .tsv .smi .parquet")
    options = TableOptions(
        smiles_column, target_columns, task, split, ensemble, None, epochs, rings, balance, no_trees, False
    )
    folder = out if out is not None else Path(f"tuned-{Path(source).name.partition('.')[0]}")
    given = {"split": split, "ensemble": ensemble, "epochs": epochs, "lifting": rings}
    settings = Settings(
        seed=seed, balance=balance, trees=not no_trees, changes=tuple(changes or ()),
        **cast("Any", {key: value for key, value in given.items() if value is not None}),
    )  # fmt: skip
    table = _read(source, options, folder, resume)
    progress = console(stderr=True)
    fixed = [name for name, value in (("ensemble", ensemble), ("rings", rings)) if value is not None]
    try:
        found = tune_table(
            table, folder, settings, trials=trials, minutes=minutes, fixed=fixed, device=device,
            workers=workers or 1, resume=resume,
            tell=None if quiet or as_json else lambda said: progress.print(said, soft_wrap=True),
        )  # fmt: skip
    except Interrupted as stopped:
        typer.echo(f"stopped; the same command with --resume goes on with {folder}", err=True)
        raise typer.Exit(128 + stopped.signal) from None
    command = _command(source, options, seed, found)
    if as_json:
        typer.echo(json.dumps({**_summary(found), "command": shlex.join(command)}))
        return
    _print(found, shlex.join(command))


def _command(source: str, options: TableOptions, seed: int, found: Tuned) -> list[str]:
    """What trains the winner: the same molecules in the same parts, and its recipe."""
    command = ["cwnet", "train", source, "--recipe", str(found.folder / "recipe.toml")]
    for name in ("smiles_column", "target_columns", "task", "split"):
        value = getattr(options, name)
        command += [] if value is None else [f"--{name.replace('_', '-')}", value]
    return [*command, *(["--seeds", str(seed)] if seed else []), "--out", "model"]


def _summary(found: Tuned) -> dict[str, Any]:
    return {
        "folder": str(found.folder),
        "metric": found.metric,
        "validation_molecules": found.molecules,
        "default": found.default.figure,
        "winner": found.winner.figure,
        "winning_trial": found.winner.number + 1,
        "settings": dict(found.winner.wish),
        "trials": len(found.trials),
        "seconds": round(found.seconds, 1),
    }


def _print(found: Tuned, command: str) -> None:
    out = console()
    out.print(f"{found.metric} of {found.molecules:,} validation molecules, with all epochs:")
    for name, trial in (("default", found.default), ("winner", found.winner)):
        what = ", ".join(f"{key} {value}" for key, value in trial.wish.items()) or "the default settings"
        figure = "none" if trial.figure is None else f"{trial.figure:.4f}"
        out.print(f"  {name}  {figure}  trial {trial.number + 1}: {what}", soft_wrap=True)
    if found.winner.number:
        out.print("The best of many is partly luck: try it on the test part once, beside the default.", soft_wrap=True)
    else:
        out.print("No candidate was better than the default settings.", soft_wrap=True)
    out.print(f"{found.seconds:,.0f} s. recipe.toml, trials.csv and trials.png are in {found.folder}", soft_wrap=True)
    out.print(f"Go on: {command}", soft_wrap=True)


def add_to(app: typer.Typer) -> None:
    """Add the verb to the command."""
    app.command(
        "tune",
        help=paragraphs(tune.__doc__),
        epilog="For example: cwnet tune data.csv --trials 20 --minutes 30 --out tuned\n\n"
        "Then: cwnet train data.csv --recipe tuned/recipe.toml --out model\n\n"
        "More candidates: cwnet tune data.csv --trials 40 --out tuned --resume",
        no_args_is_help=True,
    )(tune)
