"""What the verbs have in common: options read, graphs found, text put into words."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from rich.console import Console
from rich.text import Text

from cwnet.data import SUFFIXES
from cwnet.data._files import TABLES
from cwnet.errors import CwnetError, LiftingBudgetExceeded
from cwnet.lifting import Graph, Lifting, as_lifting
from cwnet.wl._tests import parse_test

if TYPE_CHECKING:
    from cwnet.scale import Pool

__all__ = [
    "DeviceOption",
    "HeaderOption",
    "LabelsOption",
    "LiftingOption",
    "ModelAndMolecules",
    "SchedulerOption",
    "SideBySideOption",
    "SimplifyOption",
    "SmilesColumnOption",
    "WorkersOption",
    "check_device",
    "check_folder",
    "check_some",
    "choose_model",
    "chosen_device",
    "chosen_pool",
    "console",
    "free_name",
    "is_folklore",
    "is_table",
    "label_kind",
    "looks_like_file",
    "many",
    "paragraphs",
    "read_lifting",
    "read_tests",
    "too_many_cells",
    "typed",
    "unlabelled",
    "visible",
]

LiftingOption = Annotated[
    str,
    typer.Option(
        help="Which cells to attach, for cwl: rings:6 (induced cycles of at most 6 vertices), cycles:8, cliques:4, "
        "none, or several in quotes: 'cliques:4|rings:6'.",
        metavar="KIND:SIZE",
    ),
]
LabelsOption = Annotated[
    bool | None,
    typer.Option(
        "--labels/--no-labels",
        help="Start from the elements and bond types of molecules, or the labels of a GraphML file; or from one colour "
        "for all cells. By default labels are used where there are any.",
        show_default=False,
    ),
]
SimplifyOption = Annotated[
    bool, typer.Option("--simplify", help="Drop self-loops and repeated edges, which are errors otherwise.")
]

DeviceOption = Annotated[str, typer.Option(metavar="auto|cpu|cuda", help="Where to compute.")]
SideBySideOption = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        help="Runs at once. By default all on a GPU and one on a CPU; results do not depend on it.",
        show_default=False,
    ),
]
SmilesColumnOption = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="The column of SMILES. [dim]By default found by name.[/dim]", show_default=False),
]

WorkersOption = Annotated[
    int | None,
    typer.Option(
        "--workers",
        metavar="N",
        min=1,
        help="Processes of this machine, as a Dask cluster of its own. [dim]By default what suits the input.[/dim]",
        show_default=False,
    ),
]
SchedulerOption = Annotated[
    str | None,
    typer.Option(
        "--scheduler",
        metavar="ADDRESS",
        help="A Dask scheduler to work on, such as tcp://10.0.0.1:8786, instead.",
        show_default=False,
    ),
]
HeaderOption = Annotated[bool, typer.Option("--header/--no-header", help="Whether the table has a header.")]
ModelAndMolecules = Annotated[
    list[str],
    typer.Argument(
        metavar="[MODEL] TABLE | SMILES...",
        help="The folder that cwnet train wrote, then a table of molecules or one or more SMILES. Without a folder, "
        "the model zinc that comes with cwnet is used: it predicts penalised logP.",
        show_default=False,
    ),
]

T = TypeVar("T")


class _Console(Console):
    """Prints texts that are others', such as names of columns: what would command the terminal is shown instead."""

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str(visible(text), **options)


def console(stderr: bool = False) -> Console:
    """A console on the stream as it is now: tests and pipes put others in its place."""
    # SMILES are full of what rich would take for markup and emoji.
    return _Console(stderr=stderr, highlight=False, markup=False, emoji=False)


def visible(text: str) -> str:
    """A text without control characters, which are written as numbers."""
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text)


#: All but tabs and ends of lines.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def read_lifting(text: str) -> Lifting:
    """The lifting a user typed."""
    return _or_error(as_lifting, text)


def read_tests(text: str) -> list[str]:
    """The tests a user typed, separated by commas, each once."""
    names = list(dict.fromkeys(name.strip().lower() for name in text.split(",") if name.strip()))
    if not names:
        raise CwnetError("--test is empty: name one or more of cwl, swl, wl, 2-fwl")
    for name in names:
        _or_error(parse_test, name)
    return names


def is_folklore(test: str) -> bool:
    """Whether a test colours tuples of vertices, not cells."""
    return parse_test(test)[0] == "fwl"


def _or_error(read: Callable[[str], T], text: str) -> T:
    try:
        return read(text)
    except ValueError as error:
        raise CwnetError(str(error)) from None


def looks_like_file(text: str) -> bool:
    """Whether a text ends as the names of files with graphs do."""
    return bool(re.search(rf"({'|'.join(map(re.escape, SUFFIXES))})(\.gz)?$", text, re.IGNORECASE))


@contextmanager
def chosen_pool(workers: int | None, scheduler: str | None) -> Iterator[Pool | None]:
    """The workers asked for; None where none were."""
    if workers is None and scheduler is None:
        yield None
        return
    from cwnet.scale import open_pool

    with open_pool(workers, scheduler) as pool:
        yield pool


def is_table(text: str) -> bool:
    """Whether a text ends as the names of tables of molecules do."""
    return bool(TABLES.search(text))


def check_folder(file: Path | None) -> None:
    """Refuse a file that can not be written before the work is done, not after."""
    if file is None:
        return
    if not file.parent.is_dir():
        raise CwnetError(f"{file} can not be written: there is no folder {file.parent}")
    if file.is_dir():
        raise CwnetError(f"{file} can not be written: it is a folder")
    if not os.access(file.parent, os.W_OK):
        raise CwnetError(f"{file} can not be written: no permission in {file.parent.absolute()}")


def check_some(count: int) -> None:
    """End with another exit code where a table was gone through and no row of it could be read."""
    if not count:
        console(stderr=True).print("no row of the table could be read: is it the right column (--smiles-column)?")
        raise typer.Exit(1)


def free_name(stem: str, suffix: str) -> Path:
    """A name for a file in the working directory that is not taken: STEM, or STEM-2, STEM-3, ..."""
    path, number = Path(f"{stem}{suffix}"), 1
    while path.exists():
        number += 1
        path = Path(f"{stem}-{number}{suffix}")
    return path


def check_device(device: str) -> None:
    """Refuse what is no device, or not there."""
    import torch

    if device not in ("auto", "cpu") and not re.fullmatch(r"cuda(:\d+)?", device):
        raise CwnetError(f"--device {device}: write auto, cpu or cuda")
    if device.startswith("cuda") and not torch.cuda.is_available():
        raise CwnetError(f"--device {device}: there is no GPU here; write cpu")


def chosen_device(device: str) -> str:
    """The device that was asked for, or with auto a GPU if there is one."""
    import torch

    check_device(device)
    return ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device


def typed() -> str:
    """What was typed, without where the program lies."""
    return shlex.join(["cwnet", *sys.argv[1:]])


def choose_model(
    arguments: Sequence[str], device: str, quiet: bool = False, load: Callable[[str], Any] | None = None
) -> tuple[Any, list[str]]:
    """The model that the first argument names, or else the one that comes with cwnet; and the other arguments.

    `load` reads it; by default as a `MoleculeModel`.
    """
    from cwnet.molecules import MoleculeModel, builtin_model, builtin_models
    from cwnet.molecules._builtin import DEFAULT

    place = chosen_device(device)
    first, rest = arguments[0], list(arguments[1:])
    if os.path.isdir(first) or first in builtin_models():  # a SMILES may be longer than a name can be
        if not rest:
            raise CwnetError(f"{first} is taken for the model: name a table of molecules, or SMILES, after it")
        return (load or MoleculeModel.load)(first).to(place), rest
    _check_molecules(arguments)
    model = builtin_model()
    if not quiet:
        said = f"Using the model {DEFAULT} that comes with cwnet, which predicts {', '.join(model.targets.names)}."
        console(stderr=True).print(said, soft_wrap=True)
    return model.to(place), list(arguments)


def _check_molecules(arguments: Sequence[str]) -> None:
    """Refuse a first argument that may be the name of a model that is not there."""
    from cwnet.chem._read import parse

    first = arguments[0]
    if is_table(first):
        return
    if len(arguments) == 2 and is_table(arguments[1]):
        raise CwnetError(f"{first} is not the folder of a model: there is no such folder")
    try:
        parse(first)
    except CwnetError as error:
        raise CwnetError(f"{first!r} is neither the folder of a model nor a molecule: {error}") from None


def label_kind(graph: Graph) -> tuple[bool, bool]:
    """Whether vertices and edges have labels."""
    return graph.x is not None, graph.edge_x is not None


def unlabelled(graph: Graph) -> Graph:
    """The graph alone."""
    return Graph(graph.num_nodes, graph.edges)


def many(count: int, one: str, more: str | None = None) -> str:
    """For example "1 graph" or "2 graphs"."""
    return f"{count:,} {one if count == 1 else more or one + 's'}"


def too_many_cells(error: LiftingBudgetExceeded) -> str:
    """The error for someone who types a lifting: they can choose a smaller one, and that is all."""
    return (
        f"{error.lifting} attaches too many cells: {error.cells:,} were found after {error.seconds:.1f} s, "
        f"and the budget is {error.budget}. Choose a smaller size"
    )


def paragraphs(doc: str | None) -> str:
    """A docstring for a terminal, which breaks lines where it likes."""
    return "\n\n".join(" ".join(part.split()) for part in (doc or "").split("\n\n"))
