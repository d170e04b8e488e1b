"""What the files around the package say is what the package says."""

import re
import tomllib
from pathlib import Path

import pytest

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
