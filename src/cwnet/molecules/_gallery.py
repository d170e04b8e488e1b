"""Explanations as pictures, tables and a page of many."""

from __future__ import annotations

import html
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cwnet.chem._contributions import draw_contributions
from cwnet.chem._draw import _save, write_in_ink
from cwnet.data._files import write_whole
from cwnet.molecules._explain import Explanation
from cwnet.molecules._pages import inline_svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_explanation", "write_gallery"]

#: Cells that a table on the page lists.
_LISTED = 8

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy"
content="default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none'">
<title>{title}</title>
<style>
body {{ font: 14px/1.45 system-ui, sans-serif; color: #1C1F24; margin: 2rem auto; max-width: 76rem; padding: 0 1rem; }}
h1 {{ font-size: 1.5rem; margin-bottom: 0.3rem; }}
main {{ display: grid; grid-template-columns: repeat(auto-fill, minmax(21rem, 1fr)); gap: 1.2rem; }}
article {{ border: 1px solid #ddd; border-radius: 8px; padding: 0.8rem; display: flex; flex-direction: column; }}
article svg {{ width: 100%; height: 17rem; }}
article svg * {{ pointer-events: none; }}
article svg g[id*="ring-"] *, article svg g[id*="bond-"] *, article svg g[id*="atom-"] * {{ pointer-events: all; }}
article p {{ margin: 0.6rem 0 0.3rem; }}
code {{ overflow-wrap: anywhere; }}
table {{ border-collapse: collapse; width: 100%; margin-top: 0.3rem; }}
td, th {{ padding: 0 0.8rem 0 0; text-align: left; font-weight: normal; vertical-align: top; }}
th {{ color: #555; border-bottom: 1px solid #ddd; }}
td:last-child, th:last-child {{ text-align: right; padding: 0; font-variant-numeric: tabular-nums; }}
.note {{ color: #555; }}
</style>
</head>
<body>
<h1>{title}</h1>
<p class="note">Blue pushes the prediction up, red pulls it down, compared with the saturated hydrocarbon of the same
skeleton. The contributions of all atoms, bonds and rings add up to the difference. All pictures have one scale of
colours. Point at a cell to see its number.</p>
{notes}
<main>
{cards}
</main>
</body>
</html>
"""


def draw_explanation(found: Explanation, path: str | Path | None = None, *, limit: float | None = None) -> Figure:
    """Draw the contributions on the molecule; the picture's kind is its suffix."""
    unit = f" ({found.unit})" if found.unit else ""
    figure = draw_contributions(
        found.smiles,
        found.complex,
        found.contributions,
        limit=limit,
        title=f"{found.target} = {found.value:.3g}",
        label=f"contribution{unit}, from {found.baseline:.3g} of the saturated skeleton",
    )
    write_in_ink(figure.axes[0])
    if path is not None:
        _save(figure, Path(path))
    return figure


def write_gallery(
    path: str | Path,
    found: Sequence[Explanation],
    title: str,
    *,
    captions: Sequence[str] | None = None,
    notes: Sequence[str] = (),
) -> None:
    """A page with a picture and the largest contributions of every molecule, all on one scale of colours.

    Args:
        path: the file.
        found: the explanations.
        title: of the page.
        captions: a few words for each molecule.
        notes: sentences for the top of the page.
    """
    limit = max((float(c.abs().max()) for each in found for c in each.contributions if len(c)), default=1.0)
    names = captions or [""] * len(found)
    cards = "\n".join(_card(i, each, limit, name) for i, (each, name) in enumerate(zip(found, names, strict=True)))
    said = "\n".join(f'<p class="note">{html.escape(note)}</p>' for note in notes)
    write_whole(path, _PAGE.format(title=html.escape(title), cards=cards, notes=said).encode())


def _card(number: int, found: Explanation, limit: float, caption: str) -> str:
    rows = found.rows()
    listed = "".join(
        f"<tr><td>{row['cell']}</td><td>{html.escape(row['name'])}</td><td>{row['contribution']:+.3f}</td></tr>"
        for row in rows[:_LISTED]
    )
    sums = ", ".join(f"{name} {value:+.3g}" for name, value in found.sums.items())
    unit = f" {found.unit}" if found.unit else ""
    head = f'<span class="note">{html.escape(caption)}</span> ' if caption else ""
    return (
        f"<article>{_picture(number, found, rows, limit)}<p>{head}<code>{html.escape(found.smiles)}</code></p>"
        f'<p class="note">{found.value:.3g}{unit} = skeleton {found.baseline:.3g}, {sums}</p>'
        f"<table><tr><th>cell</th><th>atoms</th><th>contribution</th></tr>{listed}</table></article>"
    )


def _picture(number: int, found: Explanation, rows: Sequence[dict[str, Any]], limit: float) -> str:
    """The drawing as part of a page: ids of its own, and a word on every cell for those who point at it."""
    picture = inline_svg(draw_explanation(found, limit=limit), f"m{number}")
    for row in rows:
        cell = f'<g id="m{number}-{row["cell"]}-{row["number"]}">'
        said = f"{row['cell']} {row['name']}: {row['contribution']:+.3f}"
        picture = picture.replace(cell, f"{cell}<title>{said}</title>", 1)
    return picture
