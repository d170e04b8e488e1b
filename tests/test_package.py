"""The package as a whole."""

import subprocess
import sys

import pytest

import cwnet


def test_import_is_light():
    """`import cwnet` pulls in neither the chemistry, nor the files, nor the pictures, nor the command line."""
    heavy = ["rdkit", "pyarrow", "matplotlib", "typer", "rich", "networkx", "torch_geometric", "toponetx", "sklearn"]
    code = f"import sys, cwnet; print([m for m in {heavy!r} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    plain = subprocess.run(
        [sys.executable, "-c", code.replace("cwnet", "torch")], capture_output=True, text=True, check=True
    ).stdout
    assert set(eval(found)) <= set(eval(plain)), "beyond what torch itself imports"


def test_the_public_names_are_there():
    assert sorted(cwnet.__all__) == cwnet.__all__
    for name in cwnet.__all__:
        assert hasattr(cwnet, name)


def test_version_is_the_packages():
    from importlib.metadata import PackageNotFoundError, version

    try:
        assert version("cwnet") == cwnet.__version__
    except PackageNotFoundError:
        pytest.skip("cwnet runs from its source folder, not installed")
