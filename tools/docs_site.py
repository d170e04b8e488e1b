"""What MkDocs does not do by itself: see `hooks` in mkdocs.yml.

- Pages of the reference are made of the rooms' ``__all__`` and the help of the command line. What is in docs/reference/
  only says so, for those who read it elsewhere.
- A folder in the navigation stands for its pages, so that a new page of results is found.
- Every tutorial is there as a notebook too (`tools/notebooks.py`), and says so.
- Links that leave docs/ work on a code host. The site has no such files, so it leads to the repository, where
  ``repo_url`` names one, and shows the path where not.
"""

from __future__ import annotations

import inspect
import posixpath
import pprint
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import typer.cli
import typer.core
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from notebooks import TUTORIALS, notebook_text  # MkDocs has this folder on the path while it loads hooks

_LINK = re.compile(r"(?P<text>!?\[(?:[^\[\]]|\[[^\]]*\])*\])\((?P<target>[^()\s]+)\)")
_STEERING = re.compile(r"^ *<!-- (in tests|not run|needs|file): .*? -->\n", re.MULTILINE)
_FENCED = re.compile(r"^( *)(```+|~~~+).*?^\1\2 *$", re.MULTILINE | re.DOTALL)


# ------------------------------------------------------------------------------------------------ the reference


def reference(name: str) -> str:
    """A page of the reference: that of a room, of `cwnet` itself, or of the command line."""
    if name == "command-line":
        return _command_line()
    return _top() if name == "cwnet" else _room(f"cwnet.{name}")


def _room(name: str) -> str:
    """A room: its docstring, then all names it makes public, modules last."""
    module = import_module(name)
    public = [(each, getattr(module, each)) for each in module.__all__]
    parts = [f"# {name}", inspect.getdoc(module) or ""]
    parts += [_entry(name, each, value) for each, value in public if not isinstance(value, ModuleType)]
    for each, value in public:
        if isinstance(value, ModuleType):
            parts += [f"## {name}.{each}", inspect.getdoc(value) or ""]
            parts += [_entry(value.__name__, n, getattr(value, n), 3) for n in value.__all__]
    return "\n\n".join(parts) + "\n"


def _entry(module: str, name: str, value: Any, level: int = 2) -> str:
    """A class or function, documented where it is defined and shown where it is imported from; or a value."""
    if not (inspect.isclass(value) or inspect.isfunction(value)):
        shown = pprint.pformat(value, width=100, compact=True)
        return f"{'#' * level} {module}.{name} {{#{module}.{name} data-toc-label='{name}'}}\n\n```python\n{shown}\n```"
    options = {"heading_level": level, "heading": f"{module}.{name}", "toc_label": name}
    lines = [f"::: {value.__module__}.{value.__qualname__}", "    options:"]
    return "\n".join([*lines, *(f"      {key}: {option}" for key, option in options.items())])


def _top() -> str:
    """`cwnet` itself: every name leads to its room, and those that have none are described here."""
    module = import_module("cwnet")
    lines = ["# cwnet", inspect.getdoc(module) or "", "What `import cwnet` gives at once:", ""]
    homeless = []
    for name in module.__all__:
        value = getattr(module, name)
        said = (inspect.getdoc(value) or "").partition("\n")[0]
        if isinstance(value, ModuleType):
            lines.append(f"- [`cwnet.{name}`]({name}.md): {said}")
        else:
            lines.append(f"- [`cwnet.{name}`][{value.__module__}.{value.__qualname__}]: {said}")
            if value.__module__.startswith("cwnet._"):
                homeless.append(_entry("cwnet", name, value))
    return "\n\n".join(["\n".join(lines), *homeless]) + "\n"


def _command_line() -> str:
    """The help of all verbs."""
    from cwnet.cli import app

    command = typer.main.get_command(app)
    context = typer.Context(command, info_name="cwnet", obj={typer.core.MARKUP_MODE_KEY: "rich"})
    text = typer.cli.get_docs_for_click(obj=command, ctx=context, name="cwnet", title="The command line")
    return re.sub(r"</?span[^>]*>", "", text)


# ------------------------------------------------------------------------------------------------ hooks


def on_config(config: MkDocsConfig) -> None:
    """Put pages in the place of folders in the navigation."""
    folder = Path(config.docs_dir)
    there = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.md"))
    config.nav = _expanded(config.nav, there)


def _expanded(nav: Any, there: list[str]) -> Any:
    if isinstance(nav, dict):
        return {title: _expanded(entry, there) for title, entry in nav.items()}
    if isinstance(nav, list):
        found = [_expanded(entry, there) for entry in nav]
        return [page for entry in found for page in (entry if isinstance(entry, list) else [entry])]
    if not nav.endswith("/"):
        return nav
    here = [page for page in there if posixpath.dirname(page) == nav.rstrip("/")]
    return sorted(here, key=lambda page: not page.endswith("README.md"))


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add the notebooks."""
    for path in TUTORIALS:
        files.append(File.generated(config, f"notebooks/{path.stem}.ipynb", content=notebook_text(path)))


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Make pages of the reference; of others, leave out what steers the tests and mend links that leave docs/."""
    folder, name = posixpath.split(page.file.src_uri)
    if folder == "reference" and name != "README.md":
        return reference(name.removesuffix(".md"))

    def mend(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, link["target"].partition("#")[0]))
        if not target.startswith("../"):
            return link[0]
        place = target.removeprefix("../")
        if config.repo_url:
            return f"{link['text']}({config.repo_url.rstrip('/')}/blob/main/{place})"
        said = link["text"].strip("[]")
        return f"`{place}`" if said.strip("`") in (place, posixpath.basename(place)) else f"{said} (`{place}`)"

    text = _STEERING.sub("", markdown)
    if folder == "tutorials" and name != "README.md":
        title, rest = text.split("\n", 1)
        there = f"../notebooks/{name.removesuffix('.md')}.ipynb"
        text = f"{title}\n\nThis page as a [notebook]({there}), for Jupyter and Colab.\n{rest}"
    parts, at = [], 0
    for block in _FENCED.finditer(text):
        parts += [_LINK.sub(mend, text[at : block.start()]), block[0]]
        at = block.end()
    return "".join([*parts, _LINK.sub(mend, text[at:])])
