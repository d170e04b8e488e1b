"""``cwnet bench``: how fast is it here, side by side with other packages?"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from cwnet.cli._shared import DeviceOption, chosen_device, console, paragraphs, typed
from cwnet.errors import CwnetError

__all__ = ["add_to"]

_EXAMPLES = """Examples

How fast is it here? cwnet bench

Some of it, on a GPU: cwnet bench train --device cuda"""


def add_to(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command("bench", help=paragraphs(bench.__doc__), epilog=_EXAMPLES)(bench)


def bench(
    jobs: Annotated[
        list[str] | None,
        typer.Argument(metavar="[JOB]...", help="read, lift, wl, cwl, train. By default all.", show_default=False),
    ] = None,
    molecules: Annotated[int, typer.Option(help="How many of RDKit's molecules.", min=200, max=5000)] = 5000,
    seconds: Annotated[float, typer.Option(help="What a turn takes at least.", min=0.01)] = 0.5,
    device: DeviceOption = "auto",
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE.json", help="Where to keep the figures.")
    ] = Path("bench.json"),
) -> None:
    """Measure the main jobs on this machine, next to other packages.

    Each job is timed together with a package that can do it too, in turns, so that a slow moment hits both. What counts
    is the ratio. About a minute. More peers and larger data are on the pages of docs/benchmarks, which `make bench`
    measures anew in a checkout.
    """
    from cwnet.experiments import speed
    from cwnet.experiments._report import describe_run, write_figures

    for job in jobs or []:
        if job not in speed.JOBS:
            raise CwnetError(f"there is no job {job!r}: choose from {', '.join(speed.JOBS)}")
    place = chosen_device(device)
    run = describe_run(typed())
    out, found = console(), []
    table = Table("job", box=None, pad_edge=False)
    for head in ("molecules/s", "next to it", "molecules/s", "times as fast"):
        table.add_column(head, justify="left" if head == "next to it" else "right")
    with console(stderr=True).status("") as status:
        rows = speed.measure(jobs or (), molecules=molecules, device=place, seconds=seconds)
        for name in jobs or speed.JOBS:
            status.update(speed.JOBS[name].words)
            row = next(rows)
            found.append(row)
            beside = f"{row.peer_rate:,.0f}" if row.peer_rate else ""
            table.add_row(row.job, f"{row.rate:,.0f}", row.peer, beside, f"{row.ratio:,.3g}" if row.ratio else "")
    out.print(table)
    write_figures(output, {"run": run, "device": place, "jobs": [asdict(row) for row in found]})
    out.print(f"Wrote {output}", soft_wrap=True)
