"""The command ``cwnet``. One file per verb."""

from __future__ import annotations

import io
import signal
import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import cwnet
from cwnet.cli import (
    bench,
    convert,
    data,
    explain,
    explore,
    fingerprint,
    lift,
    predict,
    reproduce,
    train,
    tune,
    wl,
    wl_scan,
)
from cwnet.cli._shared import visible
from cwnet.errors import CwnetError

__all__ = ["app", "main"]


class _Verbs(TyperGroup):
    """Prints users' mistakes as one line. All other errors are ours, and keep their traceback."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # the reader of a pipe has seen enough; the caller deals with it
            raise
        except (CwnetError, OSError, MemoryError, ImportError) as error:
            typer.echo(f"error: {visible(_line(error))}", err=True)
            raise typer.Exit(2) from None
        except KeyboardInterrupt:
            raise typer.Exit(130) from None


def _line(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split()) or "out of memory"  # which is what Python says nothing about


app = typer.Typer(
    cls=_Verbs,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Each verb has its own help, with examples: cwnet train --help",
)
for verb in (train, tune, predict, explain, fingerprint, wl, wl_scan, explore, data, lift, convert, reproduce, bench):
    verb.add_to(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"cwnet {cwnet.__version__}")
        raise typer.Exit


@app.callback()
def _cwnet(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """Lift graphs to cell complexes, tell them apart, and learn on them: rings are cells, as atoms and bonds are."""


def main() -> None:
    """Run the command line."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal that lacks a sign shows another, and does not fail
    # A process that is told to end clears away what it has begun to write, as after Ctrl-C.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    app(prog_name="cwnet")
