"""What the files around the package say is what the package says."""

import re
import tomllib
from pathlib import Path

import pytest
from tools.lowest_versions import lowest

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_conda_recipe_asks_for_the_same_packages():
    text = (ROOT / "conda/meta.yaml").read_text(encoding="utf-8")
    assert f'version: "{PROJECT["project"]["version"]}"' in text
    run = text.split("  run:\n")[1].split("\n\n")[0]
    recipe = dict(re.findall(r"- ([\w-]+) >=([\d.]+)", run))
    names = {"torch": "pytorch", "matplotlib": "matplotlib-base"}
    for line in PROJECT["project"]["dependencies"]:
        if ";" not in line:
            name, bound = line.split(">=")
            assert recipe.pop(names.get(name, name)) == bound
    assert recipe == {"python": PROJECT["project"]["requires-python"].removeprefix(">=")}


@pytest.mark.parametrize("path", [*sorted((ROOT / ".github").rglob("*.yml")), ROOT / ".readthedocs.yaml"])
def test_workflows_can_be_read(path):
    yaml = pytest.importorskip("yaml")
    assert isinstance(yaml.safe_load(path.read_text(encoding="utf-8")), dict)


def test_addresses_are_ones_the_readme_has():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert all(address in readme for address in PROJECT["project"]["urls"].values())


def test_the_page_has_the_lowest_versions():
    """As pyproject.toml has them."""
    page = (ROOT / "docs/start.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| (\S+) \| ([\d.]+) \|", page.split("## Lowest versions")[1], re.MULTILINE))
    assert rows.pop("Python") == PROJECT["project"]["requires-python"].removeprefix(">=")
    names = {"PyTorch": "torch", "NumPy": "numpy", "SciPy": "scipy", "RDKit": "rdkit"}
    bounds = lowest([])
    assert {names.get(name, name): version for name, version in rows.items()} == {
        name: version for name, version in bounds.items() if name != "filelock"
    }


@pytest.mark.parametrize("target", ["test", "test-lowest", "test-wheel", "lint", "docs", "notebooks", "coverage"])
def test_make_has_what_the_workflows_and_pages_name(target):
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert re.search(rf"^{target}:", text, re.MULTILINE)
    assert target in text.partition(".PHONY:")[2].partition("\n")[0].split()


def test_workflows_call_what_is_there():
    """Every make target and every script that a workflow names."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for path in (ROOT / ".github/workflows").glob("*.yml"):
        text = path.read_text(encoding="utf-8")
        assert all(re.search(rf"^{name}:", makefile, re.MULTILINE) for name in re.findall(r"run: make ([\w-]+)", text))
        for script in re.findall(r"\btools/[\w.]+", text):
            assert (ROOT / script).stat().st_mode & 0o100, f"{script} cannot be run"
        for other in re.findall(r"uses: \./(\S+)", text):
            assert (ROOT / other).is_file()


def test_workflows_may_only_read():
    """But for the release, which tells the package index who it is, and keeps no password."""
    for path in (ROOT / ".github/workflows").glob("*.yml"):
        text = path.read_text(encoding="utf-8")
        assert "permissions:\n  contents: read\n" in text
        assert ("write" in text) == (path.name == "release.yml")
        assert "secrets." not in text


@pytest.mark.parametrize(
    "name",
    [
        "LICENSE",
        "CITATION.cff",
        "CODE_OF_CONDUCT.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "CHANGELOG.md",
        "Dockerfile",
        ".github/dependabot.yml",
        ".github/pull_request_template.md",
        ".github/ISSUE_TEMPLATE/bug.md",
        ".github/ISSUE_TEMPLATE/idea.md",
    ],
)
def test_what_a_reader_looks_for_is_there(name):
    assert (ROOT / name).read_text(encoding="utf-8").strip()
