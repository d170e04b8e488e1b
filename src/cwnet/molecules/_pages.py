"""Pictures as parts of a page."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["inline_svg"]


def inline_svg(figure: Figure, prefix: str) -> str:
    """A figure as SVG that can stand in a page beside others: its ids begin with a prefix of its own."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg")
    picture = buffer.getvalue()[buffer.getvalue().index("<svg") :]
    picture = picture.replace('id="', f'id="{prefix}-').replace("url(#", f"url(#{prefix}-")
    return picture.replace('href="#', f'href="#{prefix}-')
