"""`cwnet train`: train on a table of molecules, or as a recipe says."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from cwnet.cli._shared import (
    DeviceOption,
    SideBySideOption,
    SmilesColumnOption,
    check_device,
    console,
    is_table,
    paragraphs,
)
from cwnet.cli._train_table import TableOptions, train_molecules
from cwnet.errors import CwnetError

__all__ = ["add_to"]


def train(
    source: Annotated[
        str | None,
        typer.Argument(
            metavar="TABLE | RECIPE",
            help="A table of molecules (.csv .tsv .smi .parquet, also .gz), or a recipe: a TOML file, or the name of "
            "one that comes with cwnet, see [b]--list[/b]. Without either, the molecules that come with RDKit.",
            show_default=False,
        ),
    ] = None,
    smiles_column: SmilesColumnOption = None,
    smiles_columns: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="The columns of SMILES where a row has several molecules, such as solute,solvent.",
            show_default=False,
        ),
    ] = None,
    reactions: Annotated[
        bool,
        typer.Option(
            "--reactions",
            help="Rows are reactions, reactants>>products; atoms with the same map number on both sides are matched. "
            "[dim]By default so if the first row has >>.[/dim]",
        ),
    ] = False,
    target_columns: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="The columns to learn. [dim]By default all columns of numbers.[/dim]",
            show_default=False,
        ),
    ] = None,
    descriptor_columns: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="Columns of numbers that the model sees beside the molecule, such as a temperature; [b]cwnet "
            "predict[/b] then asks for them too.",
            show_default=False,
        ),
    ] = None,
    descriptors: Annotated[
        str | None,
        typer.Option(
            metavar="rdkit",
            help="Let the network see RDKit's descriptors beside the molecule. [dim]The trees see them anyway.[/dim]",
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
            metavar="random|scaffold|cluster|kennard-stone|time:COLUMN|column:NAME|file:PATH",
            help="Which molecules to train, choose and test by. scaffold and cluster keep families together: the test "
            "molecules are new ones. cluster:0.4 joins molecules up to that Tanimoto distance. time:COLUMN trains on "
            "the oldest and tests on the newest. kennard-stone trains on molecules that cover all, the mildest test. "
            "column:NAME says train, val or test; file:PATH is a split.json. [dim]By default 80, 10 and 10 % by "
            "chance.[/dim]",
            show_default=False,
        ),
    ] = None,
    ensemble: Annotated[
        int | None,
        typer.Option(metavar="N", help="Networks to train; their mean is predicted. [dim]3[/dim]", show_default=False),
    ] = None,
    replicates: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Train N models, each with its own random split and seeds, for the mean and spread of the figures.",
            show_default=False,
        ),
    ] = None,
    folds: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Cross-validate: train N models, each tested on another Nth of the molecules, for the mean and spread "
            "of the figures. The folder is one model that predicts their mean. With --split scaffold or cluster, these "
            "stay whole.",
            show_default=False,
        ),
    ] = None,
    epochs: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="At the most. [dim]By default fewer for more molecules.[/dim]", show_default=False
        ),
    ] = None,
    rings: Annotated[
        str | None,
        typer.Option(metavar="KIND:SIZE", help="Which rings are cells, as in rings:6 or none.", show_default=False),
    ] = None,
    balance: Annotated[
        bool, typer.Option("--balance", help="Let rare classes weigh as much as frequent ones.")
    ] = False,
    weight_column: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="A column that says how much each row weighs in training: 2 is as if it were there twice, 0 leaves it "
            "out. Test figures are not weighted.",
            show_default=False,
        ),
    ] = None,
    target_weights: Annotated[
        str | None,
        typer.Option(
            metavar="A=2,B=1",
            help="How much targets weigh in the loss of the networks. [dim]1 each.[/dim]",
            show_default=False,
        ),
    ] = None,
    no_trees: Annotated[
        bool, typer.Option("--no-trees", help="Train the network alone, without decision trees beside it.")
    ] = False,
    no_network: Annotated[
        bool, typer.Option("--no-network", help="Grow the trees alone: seconds for a thousand molecules.")
    ] = False,
    uncertainty: Annotated[
        str | None,
        typer.Option(
            metavar="conformal|ensemble|quantile|mve",
            help="How intervals of numbers come about, all of them calibrated on the validation part: [b]conformal[/b] "
            "(no assumptions), [b]ensemble[/b] (how far networks and trees differ, for any level), [b]quantile[/b] "
            "(the network learns a lower and an upper quantile: sides of their own) or [b]mve[/b] (it learns a "
            "variance). [dim]conformal[/dim]",
            show_default=False,
        ),
    ] = None,
    target_level: Annotated[
        str | None,
        typer.Option(
            metavar="molecule|atom|bond",
            help="What the targets are of. Those of atoms and bonds are lists such as \\[0.1, -0.2, null], in the "
            "order of the SMILES (bonds: of RDKit); hydrogens written as \\[H] are not counted. [dim]molecule[/dim]",
            show_default=False,
        ),
    ] = None,
    recipe: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.toml",
            help="Settings of a table's model: the recipe.toml of cwnet tune. What is typed beside it goes first.",
            show_default=False,
        ),
    ] = None,
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="KEY=VALUE",
            help="Change a value of the recipe, as in train.lr=1e-3, model.width=64 or data.lifting=rings:6; of a "
            "table's trees too, as in trees.count=100. "
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
    device: DeviceOption = "auto",
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run that is in --out.")] = False,
    side_by_side: SideBySideOption = None,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Write curves for TensorBoard too.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures of a table's model as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
    show: Annotated[bool, typer.Option("--show", help="Print the recipe, with all changes, and stop.")] = False,
    list_them: Annotated[bool, typer.Option("--list", help="List the recipes that come with cwnet, and stop.")] = False,
) -> None:
    """Train a model on a table of molecules, or a network as a recipe says.

    A table needs a column of SMILES and one or more of targets; targets may be missing. A model of a table is a network
    on atoms, bonds and rings and, beside it, decision trees on fingerprints and descriptors; it predicts their mean.
    The folder gets the model, which cwnet predict, explain and fingerprint take, the split, the figures and predictions
    of the test part, and plots.

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
    check_device(device)
    if resume and out is None:
        raise CwnetError("--resume needs --out: the folder of the run to go on with")
    wishes = TableOptions(
        smiles_column, target_columns, task, split, ensemble, replicates, epochs, rings, balance,
        no_trees, no_network, folds, weight_column, target_weights, descriptor_columns, descriptors, smiles_columns,
        reactions, recipe, uncertainty, target_level,
    )  # fmt: skip
    if source is None or is_table(source):
        seed = _one_seed(seeds)
        folder = out if out is not None else _next_folder("nci" if source is None else _stem(source))
        train_molecules(
            source, wishes, folder, seed=seed, changes=changes or [], device=device, resume=resume,
            quiet=quiet or as_json, as_json=as_json,
        )  # fmt: skip
        return
    wishes.refuse(source)
    plan = load_recipe(source, changes or [])
    if seeds is not None:
        plan = plan.with_seeds(_read_seeds(seeds))
    if show:
        typer.echo(plan.to_toml(), nl=False)
        return
    if out is None and processes.launched():
        raise CwnetError("several processes need --out: a folder that all of them see")
    folder = out if out is not None else _next_folder(plan.name)
    try:
        results = fit(
            plan, out=folder, device=device, resume=resume, side_by_side=side_by_side, progress=not quiet,
            tensorboard=tensorboard,
        )  # fmt: skip
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


_LARGEST_SEED = 2**63 - 1


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
        if last > _LARGEST_SEED:
            raise CwnetError(f"--seeds {text}: a seed is at most {_LARGEST_SEED}")
        seeds += range(first, last + 1)
    return list(dict.fromkeys(seeds))


def _one_seed(text: str | None) -> int:
    """The seed of a table's split and networks."""
    found = [0] if text is None else _read_seeds(text)
    if len(found) > 1:
        raise CwnetError(
            f"--seeds {text}: a table takes one; several networks are an --ensemble, several models "
            "--folds or --replicates"
        )
    return found[0]


def _stem(file: str) -> str:
    return Path(file).name.partition(".")[0]


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
        epilog="For example: cwnet train data.csv --smiles-column smiles --target-columns logS --out model\n\n"
        "How much is chance? cwnet train data.csv --replicates 5 --out models\n\n"
        "Every molecule tested once: cwnet train data.csv --folds 5 --out model\n\n"
        "Several molecules: cwnet train data.csv --smiles-columns solute,solvent --target-columns logS\n\n"
        "Conditions beside the molecule: cwnet train data.csv --descriptor-columns temperature,pH\n\n"
        "With settings that were searched: cwnet train data.csv --recipe tuned/recipe.toml --out model\n\n"
        "Errors that differ from molecule to molecule: cwnet train data.csv --uncertainty quantile --out model\n\n"
        "Charges of atoms: cwnet train charges.csv --target-level atom --target-columns charge --out model\n\n"
        "cwnet train zinc-cin-small --seeds 0-3 --set train.epochs=50 --out runs/small",
    )(train)
