"""Explanations as pictures, tables and a page of many."""

from __future__ import annotations

import html
import io
from collections.abc import Sequence
from pathlib import Path

from cwnet.chem._contributions import draw_contributions
from cwnet.data._files import write_whole
from cwnet.molecules._explain import Explanation

__all__ = ["draw_explanation", "write_gallery"]

#: Cells that a table on the page lists.
_LISTED = 8

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<style>
body {{ font: 14px/1.45 system-ui, sans-serif; color: #1C1F24; margin: 2rem auto; max-width: 76rem; padding: 0 1rem; }}
main {{ display: grid; grid-template-columns: repeat(auto-fill, minmax(21rem, 1fr)); gap: 1.2rem; }}
article {{ border: 1px solid #ddd; border-radius: 8px; padding: 0.8rem; }}
article svg {{ width: 100%; height: auto; }}
code {{ overflow-wrap: anywhere; }}
td, th {{ padding: 0 0.8rem 0 0; text-align: left; font-weight: normal; }}
td:last-child {{ text-align: right; font-variant-numeric: tabular-nums; }}
p.note {{ color: #555; }}
</style>
</head>
<body>
<h1>{title}</h1>
<p class="note">Blue pushes the prediction up, red pulls it down, compared with the saturated hydrocarbon of the same
skeleton. The contributions of all atoms, bonds and rings add up to the difference.</p>
<main>
{cards}
</main>
</body>
</html>
"""


def draw_explanation(found: Explanation, path: str | Path | None = None, *, limit: float | None = None) -> object:
    """Draw the contributions on the molecule; the picture's kind is its suffix."""
    title = f"{found.target}: {found.value:.3g}, skeleton {found.baseline:.3g}"
    return draw_contributions(
        found.smiles, found.complex, found.contributions, limit=limit, title=title, label="contribution", path=path
    )


def write_gallery(path: str | Path, found: Sequence[Explanation], title: str) -> None:
    """A page with a picture and the largest contributions of every molecule, all on one scale of colours."""
    limit = max((float(c.abs().max()) for each in found for c in each.contributions if len(c)), default=1.0)
    cards = "\n".join(_card(i, each, limit) for i, each in enumerate(found))
    write_whole(path, _PAGE.format(title=html.escape(title), cards=cards).encode())


def _card(number: int, found: Explanation, limit: float) -> str:
    figure = draw_explanation(found, limit=limit)
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg")  # type: ignore[attr-defined]
    # Ids are those of one page: each picture gets its own.
    picture = buffer.getvalue()[buffer.getvalue().index("<svg") :]
    picture = picture.replace('id="', f'id="m{number}-').replace("url(#", f"url(#m{number}-")
    picture = picture.replace('href="#', f'href="#m{number}-')
    rows = "".join(
        f"<tr><td>{row['cell']}</td><td>{' '.join(map(str, row['atoms']))}</td><td>{row['contribution']:+.3f}</td></tr>"
        for row in found.rows()[:_LISTED]
    )
    return (
        f"<article>{picture}<p><code>{html.escape(found.smiles)}</code></p>"
        f"<table><tr><th>cell</th><th>atoms</th><th>contribution</th></tr>{rows}</table></article>"
    )
