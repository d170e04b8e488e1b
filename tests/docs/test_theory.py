"""docs/theory.md names functions, tests and statements of the paper: all of them are there, and none twice."""

import ast
import dataclasses
import re
from importlib import import_module
from itertools import takewhile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "theory.md").read_text(encoding="utf-8")
PROSE = re.sub(r"^```.*?^```$", "", TEXT, flags=re.MULTILINE | re.DOTALL)
#: Statements of the paper in its order: definitions (D), examples (E), lemmas (L), propositions, theorems, corollaries.
KINDS = "DDDDDTTDETDETDCTTTTDDDPCPLPPDTCCDDDDDDD"

TESTS = sorted(set(re.findall(r"`(tests/[^`]+)`", PROSE)))
NAMES = sorted(set(re.findall(r"`(cwnet(?:\.\w+)+)", PROSE)))
ROWS = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in PROSE.splitlines() if line.startswith("| ")]
STATEMENTS = [row for row in ROWS if re.match(r"(Definition|Example|Lemma|Proposition|Theorem|Corollary) \d", row[0])]


def defined(path, *names):
    """Whether a file defines a function, or a class with a method; a class alone must have a test."""
    body = ast.parse((ROOT / path).read_text(encoding="utf-8")).body
    for name in names:
        node = next((n for n in body if isinstance(n, (ast.FunctionDef, ast.ClassDef)) and n.name == name), None)
        if node is None or not name.startswith(("test_", "Test")):
            return False
        body = node.body
    return isinstance(node, ast.FunctionDef) or any(
        isinstance(n, ast.FunctionDef) and n.name.startswith("test_") for n in node.body
    )


def resolved(name):
    """What a dotted name means: the longest module in it, and attributes from there; fields of dataclasses count."""
    parts = name.split(".")
    modules = [".".join(parts[: i + 1]) for i in range(len(parts))]
    found = [*takewhile(lambda pair: pair[1] is not None, ((m, importable(m)) for m in modules))]
    value = found[-1][1]
    for attribute in parts[len(found) :]:
        if dataclasses.is_dataclass(value) and attribute in {f.name for f in dataclasses.fields(value)}:
            return attribute
        value = getattr(value, attribute)
    return value


def importable(name):
    try:
        return import_module(name)
    except ModuleNotFoundError:
        return None


@pytest.mark.parametrize("test", TESTS)
def test_tests_are_there(test):
    path, *names = test.split("::")
    assert names, f"{test}: which test of this file?"
    assert (ROOT / path).is_file()
    assert defined(path, *names)


@pytest.mark.parametrize("name", NAMES)
def test_names_are_there(name):
    assert resolved(name) is not None


def test_every_statement_of_the_paper_is_there_once_and_in_order():
    assert [f"{row[0][0]} {row[0].split()[1]}" for row in STATEMENTS] == [f"{k} {i + 1}" for i, k in enumerate(KINDS)]


def test_labels_are_unique():
    labels = [label for row in STATEMENTS for label in re.findall(r"`(\w+:[\w-]+)`", row[0])]
    assert len(labels) == 19
    assert len(set(labels)) == len(labels)


@pytest.mark.parametrize("row", [row for row in ROWS if "tests/" in "".join(row)], ids=lambda row: row[0])
def test_every_row_has_words_a_function_and_a_test(row):
    _, words, function, tests = row
    assert words
    assert "`cwnet." in function
    assert "`tests/" in tests


def test_all_statements_have_rows_with_tests():
    assert len(STATEMENTS) == len(KINDS)
    assert all(len(row) == 4 and "`tests/" in row[3] for row in STATEMENTS)


@pytest.mark.parametrize("target", sorted(set(re.findall(r"\]\(([^)#]+\.md)\)", PROSE))))
def test_links_lead_somewhere(target):
    """To a page, or to a room, whose page of the reference is made when the site is built."""
    room = re.fullmatch(r"reference/(\w+)\.md", target)
    if room:
        assert importable(f"cwnet.{room[1]}") is not None
    else:
        assert (ROOT / "docs" / target).is_file()


def test_every_name_is_linked_to_its_room():
    """cwnet.wl.refine to reference/wl.md; names of cwnet itself to where they come from."""
    for name, room in re.findall(r"\[`(cwnet\.[\w.]+)`\]\(reference/(\w+)\.md\)", PROSE):
        value = resolved(name)
        home = getattr(value, "__module__", None) or name
        assert room in (*name.split("."), *home.split(".")), f"{name} is not of {room}"


@pytest.mark.parametrize(
    ("test", "there"),
    [
        ("tests/docs/test_theory.py::test_labels_are_unique", True),
        ("tests/docs/test_theory.py::test_labels_are_red", False),
        ("tests/wl/test_theorems.py::TestTheoremSparseCWL::test_on_the_atlas", True),
        ("tests/wl/test_theorems.py::TestTheoremSparseCWL::test_on_the_moon", False),
        ("tests/wl/test_theorems.py::refines", False),
    ],
)
def test_what_is_not_there_is_noticed(test, there):
    path, *names = test.split("::")
    assert defined(path, *names) is there


@pytest.mark.parametrize("name", ["cwnet.wl.refined", "cwnet.CellComplex.edges"])
def test_names_that_are_not_there_are_noticed(name):
    with pytest.raises(AttributeError):
        resolved(name)
