"""Every example is short, runs as a script from anywhere, and shows what it says it shows."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
SHORT = sorted(path for path in EXAMPLES.glob("*.py") if path.name != "demo.py")


def run(name, tmp_path):
    env = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8", "MPLBACKEND": "Agg"}
    done = subprocess.run(
        [sys.executable, EXAMPLES / f"{name}.py"],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        encoding="utf-8",
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.iterdir())  # it leaves nothing behind
    return done.stdout


def numbers(line):
    return [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", line)]


def test_there_are_five():
    assert [path.stem for path in SHORT] == ["flows", "lift_your_graphs", "own_layer", "own_table", "tell_apart"]


@pytest.mark.parametrize("path", SHORT, ids=lambda path: path.stem)
def test_an_example_is_short_and_says_how_to_run_it(path):
    text = path.read_text(encoding="utf-8")
    assert len(text.splitlines()) < 60
    docstring = text.split('"""')[1]
    assert f"python examples/{path.name}" in docstring


def test_tell_apart(tmp_path):
    said = run("tell_apart", tmp_path)
    verdicts = {line[:24].strip(): line[24:].replace("round ", "").split() for line in said.splitlines()[1:6]}
    assert {verdict[0] for verdict in verdicts.values()} == {"–"}  # WL sees none of them
    assert verdicts["rook 4x4, Shrikhande"] == ["–", "–", "0", "0", "0"]
    assert verdicts["decalin, bicyclopentyl"] == ["–", "2", "–", "1", "1"]
    assert verdicts["ring of 14, two of 7"][3:] == ["–", "0"]


def test_lift_your_graphs(tmp_path):
    pytest.importorskip("networkx")
    said = run("lift_your_graphs", tmp_path)
    rows = re.findall(r"dodecahedron +20 \+ 30 \+ (\d+).* (\d+, \d+, \d+)\n", said)
    assert rows == [("12", "1, 0, 1"), ("0", "1, 11, 0"), ("12", "1, 0, 1")]
    assert "ComplexBatch(3 complexes: 90 vertices" in said


def test_own_layer(tmp_path):
    pytest.importorskip("networkx")
    constant, graph_network, own = (numbers(line)[-1] for line in run("own_layer", tmp_path).splitlines())
    assert graph_network > 0.9 * constant
    assert own < 0.5 * constant


def test_flows(tmp_path):
    pytest.importorskip("networkx")
    said = run("flows", tmp_path)
    assert "(1, 1, 0)" in said
    walks = [numbers(line) for line in said.splitlines()[3:8]]
    assert [walk[-1] for walk in walks] == [1, 1, -1, 0, 2]


def test_own_table(tmp_path):
    pytest.importorskip("rdkit")
    said = run("own_table", tmp_path)
    rows = re.findall(r"true +(-?\d+) +predicted +(-?\d+)", said)
    assert len(rows) == 4
    assert float(re.search(r"Off by (\d+) °C", said)[1]) < 40
    assert re.search(r"Oc1ccccc1 .* atoms \+\d+, bonds .* rings .* gives \d+", said)


def test_the_pictures_of_the_tutorials(tmp_path):
    """Every picture can be drawn anew, from whatever results there are."""
    pytest.importorskip("rdkit")
    script = EXAMPLES.parent / "tools" / "pictures.py"
    done = subprocess.run([sys.executable, script, "--out", tmp_path], capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    drawn = {path.stem for path in tmp_path.iterdir() if path.stat().st_size > 10_000}
    assert drawn >= {"lifted", "liftings", "wl-rounds", "receptive-field"}
    assert len(drawn) + done.stdout.count("yet") == 6
