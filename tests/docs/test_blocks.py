"""Every fenced block of the README and the documentation runs, and prints what the page says.

Blocks of a page run in order, in one folder. ``python`` blocks share their names; ``sh`` blocks hold a command of
``cwnet`` per line; a ``text`` block is what the block before it prints, where ``...`` stands for anything; ``toml``,
``csv`` and ``json`` blocks are files. Comments above a block steer it:

    <!-- in tests: LONG => SHORT -->   replace what a reader has minutes for, and a test has not
    <!-- not run: reason -->           leave it out: it can not run in a test
    <!-- needs: rdkit -->              leave it out where that is not installed; also "data zinc" and "gpu"
    <!-- file: data.csv -->            write it to that file
"""

import pytest

from tests.docs.pages import PAGES, ROOT, BlockError, reader, run_page

__all__ = ["reader"]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_page(path, reader):
    left_out = run_page(path)
    if left_out:
        pytest.skip("; ".join(left_out))


def test_the_readme_has_the_verbs_for_chemists():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert all(f"\ncwnet {verb} " in text for verb in ("train", "predict", "explain", "fingerprint"))


FENCE = "```"


def page(folder, *lines):
    path = folder / "page.md"
    path.write_text("\n".join(lines).replace("'''", FENCE), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "lines",
    [
        ("'''python", "a = 2", "'''", "prose", "'''python", "print(a + 1)", "'''", "'''text", "3", "'''"),
        ("'''python", "print('a', 1.25)", "'''", "'''text", "a ...", "'''"),
        ("'''python", "1 < 2  # True", "'''"),
        ("'''sh", "cwnet wl --help  # what a verb does", "'''", "'''text", "...Weisfeiler...", "'''"),
        ("'''sh", "cwnet --version \\", "  --help", "'''"),
        ("<!-- not run: no time -->", "'''sh", "make all", "'''", "'''text", "done", "'''"),
        ("<!-- in tests: 10**9 => 3 -->", "'''python", "print(len([*range(10**9)]))", "'''", "'''text", "3", "'''"),
        ("<!-- file: a.csv -->", "'''csv", "b,c", "'''", "'''python", "print(open('a.csv').read())", "'''",
         "'''text", "b,c", "'''"),
        ("'''toml", "# file: a.toml", "b = 1", "'''", "'''python", "open('a.toml')", "'''"),
        ("'''python", "class A: pass", "import sys", "print(sys.modules[A.__module__].A is A)", "'''",
         "'''text", "True", "'''"),
    ],
)  # fmt: skip
def test_what_passes(lines, reader):
    assert run_page(page(reader, *lines)) == []


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (("'''python", "print(3)", "'''", "'''text", "4", "'''"), r"page.md:4: expected\n4"),
        (("'''sh", "cwnet --version", "'''", "'''text", "cwnet 99", "'''"), "expected\ncwnet 99"),
        (("'''python", "1 > 2  # True", "'''"), "page.md:2: 1 > 2 is False, not True"),
        (("'''sh", "cwnet data info nothing", "'''"), "exit code 2"),
        (("'''sh", "make all", "'''"), "can not be run here"),
        (("'''", "make all", "'''"), "say how it is run"),
        (("'''bash", "make all", "'''"), "say how it is run"),
        (("'''text", "3", "'''"), "not the output of a block"),
        (("<!-- in tests: b => c -->", "'''python", "a = 1", "'''"), "no 'b' to replace"),
        (("'''csv", "b,c", "'''"), "which file"),
        (("'''python", "a = 1"), "no end"),
    ],
)
def test_what_fails(lines, message, reader):
    with pytest.raises(BlockError, match=message):
        run_page(page(reader, *lines))


def test_an_error_shows_the_line_of_the_page(reader):
    path = page(reader, "# Title", "", "'''python", "a = 1", "a / 0", "'''")
    with pytest.raises(ZeroDivisionError) as caught:
        run_page(path)
    assert caught.traceback[-1].lineno + 1 == 5


def test_what_is_not_there_is_left_out(reader):
    [said] = run_page(page(reader, "<!-- needs: no_such_package -->", "'''python", "import no_such_package", "'''"))
    assert said == "page.md:2: needs no_such_package"
