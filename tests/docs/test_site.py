"""The site builds without a warning, its links lead somewhere, and it asks no other machine for anything."""

import os
import pkgutil
import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import unquote, urlsplit

import pytest

import cwnet
from tests.docs.pages import ROOT


class _Page(HTMLParser):
    """What a page has: names to link to, links, and what a browser loads by itself."""

    def __init__(self, text):
        super().__init__()
        self.names, self.links, self.loaded = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        found = dict(attributes)
        self.names |= {found[key] for key in ("id", "name") if found.get(key)}
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        if tag == "link" and "canonical" not in found.get("rel", ""):
            self.loaded.append(found.get("href"))
        if found.get("src"):
            self.loaded.append(found["src"])


@pytest.mark.parametrize(
    ("repository", "expected"),
    [
        (None, "`LICENSE`, read this (`src/a.py`), [here](b.md)"),
        ("http://x/", "[LICENSE](http://x/blob/main/LICENSE), [read this](http://x/blob/main/src/a.py), [here](b.md)"),
    ],
)
def test_links_that_leave_the_documentation(repository, expected, monkeypatch):
    pytest.importorskip("mkdocs")
    monkeypatch.syspath_prepend(ROOT / "tools")  # as MkDocs does
    from docs_site import on_page_markdown

    text = "[LICENSE](../../LICENSE), [read this](../../src/a.py#L3), [here](b.md)"
    page = SimpleNamespace(file=SimpleNamespace(src_uri="guides/page.md"))
    assert on_page_markdown(text, page, SimpleNamespace(repo_url=repository), None) == expected


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("mkdocs", reason="needs mkdocs: pip install cwnet[docs]")
    pytest.importorskip("rdkit")  # the reference has the rooms that need it
    folder = tmp_path_factory.mktemp("site")
    run = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(folder)],
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert "WARNING" not in run.stderr, run.stderr
    return folder


@pytest.fixture(scope="module")
def pages(site):
    return {path: _Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}


def test_links_lead_somewhere(site, pages):
    wrong = []
    for path, page in pages.items():
        if path.name == "404.html":  # its links start at the root of a server
            continue
        for link in [*page.links, *filter(None, page.loaded)]:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if target.is_dir():
                target /= "index.html"
            if not target.is_file() or (parts.fragment and unquote(parts.fragment) not in pages[target].names):
                wrong.append(f"{path.relative_to(site)}: {link}")
    assert wrong == []


def test_nothing_is_loaded_from_elsewhere(site, pages):
    outside = re.compile(r"(https?:)?//")
    for path, page in pages.items():
        assert [link for link in page.loaded if outside.match(link)] == [], path
    for path in site.rglob("*.css"):
        assert re.findall(r"url\(['\"]?(?:https?:)?//[^)]+\)", path.read_text(encoding="utf-8")) == [], path


def test_search_from_a_folder(site, chromium):
    """In a browser, without a server: what is typed is found, and no other machine is asked for anything."""
    page, asked = chromium.new_page(), []
    page.on("request", lambda request: asked.append(request.url))
    page.goto((site / "index.html").as_uri())
    page.locator("input.md-search__input").press_sequentially("budget")
    page.wait_for_selector(".md-search-result__item")
    assert "budget" in page.locator(".md-search-result__list").inner_text().lower()
    assert [address for address in asked if not address.startswith("file:")] == []


def test_every_page_is_there_and_in_the_navigation(site, pages):
    made = {path.relative_to(site).with_suffix("") for path in pages}
    front = (site / "index.html").read_text(encoding="utf-8")
    for page in (ROOT / "docs").rglob("*.md"):
        place = page.relative_to(ROOT / "docs").with_suffix("")
        place = place.with_name("index") if place.name == "README" else place
        assert place in made
        assert place == Path("index") or f'href="{place}.html"' in front, place


def test_the_reference_has_all_public_names(site):
    """Of all rooms, but for those that are behind the command line."""
    rooms = {room.name for room in pkgutil.iter_modules(cwnet.__path__) if not room.name.startswith("_")}
    for room in rooms - {"cli", "experiments"}:
        text = (site / "reference" / f"{room}.html").read_text(encoding="utf-8")
        for name in import_module(f"cwnet.{room}").__all__:
            assert f"cwnet.{room}.{name}" in text


def test_tutorials_are_notebooks_too(site):
    for path in (ROOT / "docs/tutorials").glob("[0-9]*.md"):
        assert (site / "notebooks" / f"{path.stem}.ipynb").is_file()
        page = (site / "tutorials" / f"{path.stem}.html").read_text(encoding="utf-8")
        assert f"../notebooks/{path.stem}.ipynb" in page


def test_the_reference_has_all_verbs(site):
    from cwnet.cli import app

    text = (site / "reference" / "command-line.html").read_text(encoding="utf-8")
    for command in app.registered_commands:
        assert f'id="cwnet-{command.name}"' in text
