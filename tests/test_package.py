"""The package as a whole."""

import subprocess
import sys

import pytest

import cwnet

HEAVY = [
    "rdkit", "pyarrow", "matplotlib", "typer", "rich", "networkx", "torch_geometric", "toponetx", "sklearn", "triton",
    "tensorboard", "dask", "distributed", "pandas", "lightning",
]  # fmt: skip


def test_imports_are_light():
    """Complexes, tests and networks pull in neither the chemistry, nor files, nor pictures, nor the command line.

    The command line itself needs two packages to say what its verbs are.
    """
    rooms = ["cwnet", "cwnet.complexes", "cwnet.lifting", "cwnet.wl", "cwnet.topology", "cwnet.nn", "cwnet.cli"]
    code = (
        "import sys, importlib\n"
        "for room in ['torch', *sys.argv[2:]]:\n"
        "    importlib.import_module(room)\n"
        "    print(room, *(name for name in sys.argv[1].split() if name in sys.modules))\n"
    )
    run = [sys.executable, "-c", code, " ".join(HEAVY), *rooms]
    out = subprocess.run(run, capture_output=True, text=True, check=True).stdout
    (_, *plain), *others = (line.split() for line in out.splitlines())
    assert [name for name, *_ in others] == rooms
    for room, *found in others:
        allowed = {"typer", "rich"} if room == "cwnet.cli" else set()
        assert set(found) <= set(plain) | allowed, f"{room} imports more than torch does by itself"


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
