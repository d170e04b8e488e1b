"""The tutorials as notebooks: valid, standing alone, and with the code that the tests of the pages run."""

import ast
import json
import re

import pytest
from tools.notebooks import TUTORIALS, notebook, notebook_text

from tests.docs.pages import ROOT, read_blocks

every = pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)


def source(cell):
    return "".join(cell["source"])


def cells(path, kind):
    return [source(cell) for cell in notebook(path)["cells"] if cell["cell_type"] == kind]


def test_all_tutorials_are_there():
    assert sorted(path for path in (ROOT / "docs/tutorials").glob("*.md") if path.name != "README.md") == TUTORIALS


@every
def test_the_format(path):
    made = json.loads(notebook_text(path))
    try:
        import nbformat
    except ImportError:
        return _check_structure(made)
    nbformat.validate(made)
    return None


def _check_structure(made):
    """What the schema of nbformat 4.5 asks for, as far as these notebooks go."""
    assert set(made) == {"cells", "metadata", "nbformat", "nbformat_minor"}
    assert (made["nbformat"], made["nbformat_minor"]) == (4, 5)
    ids = [cell["id"] for cell in made["cells"]]
    assert len(set(ids)) == len(ids)
    assert all(re.fullmatch(r"[\w-]{1,64}", name) for name in ids)
    for cell in made["cells"]:
        more = {"execution_count", "outputs"} if cell["cell_type"] == "code" else set()
        assert cell["cell_type"] in ("code", "markdown")
        assert set(cell) == {"cell_type", "id", "metadata", "source"} | more
        for output in cell.get("outputs", []):
            assert set(output) == {"output_type", "name", "text"}


@every
def test_the_structure(path):
    _check_structure(notebook(path))


@every
def test_the_first_cell_installs(path):
    first = notebook(path)["cells"][0]
    extras = "[chem]" if "needs: rdkit" in path.read_text(encoding="utf-8") else ""
    assert f'%pip install --quiet "cwnet{extras}"' in source(first)


@every
def test_a_notebook_runs_what_the_page_runs(path):
    expected = [block for block in read_blocks(path) if block.language != "text" and not block.said("not run")]
    found = [text for text in cells(path, "code")[1:] if not text.startswith("!mkdir -p ")]
    assert len(found) == len(expected)
    for text, block in zip(found, expected, strict=True):
        assert re.sub(r"^(!|%%writefile .*\n)", "", text, flags=re.MULTILINE) == block.text.rstrip("\n")


@every
def test_cells_are_python_or_commands(path):
    for text in cells(path, "code"):
        if not text.startswith(("!", "%", "#")):
            ast.parse(text)


@every
def test_pictures_are_inside_and_links_lead_to_notebooks(path):
    for text in cells(path, "markdown"):
        for picture, target in re.findall(r"(!?)\[[^\]]*\]\(([^()\s]+)\)", text):
            if picture:
                assert target.startswith("data:image/")
            else:
                assert target.startswith("https://") or (path.parent / target).with_suffix(".md") in TUTORIALS


def test_what_becomes_of_blocks(tmp_path):
    page = tmp_path / "page.md"
    lines = (
        "# A page", "", "Prose.", "", "<!-- needs: rdkit -->",
        "'''sh", "cwnet wl CC \\", "  CCC  # two", "cwnet --help", "'''",
        "'''text", "told apart", "'''", "", "<!-- not run: long -->", "'''python", "1 / 0", "'''", "",
        "<!-- file: a/b.toml -->", "'''toml", "c = 1", "'''",
    )  # fmt: skip
    page.write_text("\n".join(lines).replace("'''", "`" * 3) + "\n", encoding="utf-8")
    _, prose, command, left_out, folder, file = notebook(page)["cells"]
    assert source(prose) == "# A page\n\nProse."
    assert source(command) == "!cwnet wl CC \\\n  CCC  # two\n!cwnet --help"
    assert command["outputs"] == [{"output_type": "stream", "name": "stdout", "text": ["told apart\n"]}]
    assert left_out["cell_type"] == "markdown"
    assert "1 / 0" in source(left_out)
    assert [source(folder), source(file)] == ["!mkdir -p a", "%%writefile a/b.toml\nc = 1"]
