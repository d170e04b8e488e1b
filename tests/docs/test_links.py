"""Links of the README and the documentation lead to files and headings that exist. Other sites are not asked."""

import re

import pytest

from tests.docs.pages import PAGES, ROOT

FILES = [*PAGES, ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md"]

_CODE = re.compile(r"^( *)(```+|~~~+).*?^\1\2 *$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
_TARGETS = re.compile(
    r"\]\(([^()\s]+)(?:\s+\"[^\"]*\")?\)|(?:src|href)=\"([^\"]+)\"|^\[[^\]]+\]:\s+(\S+)", re.MULTILINE
)


def links(text):
    """The targets of links and images, but for those in code."""
    return [next(filter(None, found)) for found in _TARGETS.findall(_CODE.sub("", text))]


def anchors(text):
    """The names that headings get, on a code host and on the site alike."""
    without = re.sub(r"^( *)(```+|~~~+).*?^\1\2 *$", "", text, flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ +(.+?) *$", without, re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "") for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in plain}


def broken(path):
    """The links of a page that lead nowhere."""
    found = []
    for link in links(path.read_text(encoding="utf-8")):
        if re.match(r"[a-z]+:", link):
            continue
        place, _, anchor = link.partition("#")
        target = (path.parent / place).resolve() if place else path
        if not target.exists():
            found.append(f"{link}: there is no such file")
        elif anchor and anchor not in anchors(target.read_text(encoding="utf-8")):
            found.append(f"{link}: there is no such heading")
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links(path):
    assert broken(path) == []


def test_broken_links_are_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        '# One `two`: three\n[a](page.md#one-two-three) [b](#four) ![c](c.png) <img src="d.png">\n'
        "[f](https://example.org) `[g](h)`\n\n```sh\n[i](j)\n```\n\n[k]: l.md\n"
    )
    assert [found.partition(":")[0] for found in broken(page)] == ["#four", "c.png", "d.png", "l.md"]
