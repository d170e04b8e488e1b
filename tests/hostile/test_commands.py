"""Command lines of a hostile or an unlucky user: a line says what is wrong, and the exit code too."""

import base64
import gzip
import hashlib
import json
import os
import signal
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

from cwnet.cli import app
from cwnet.molecules._gallery import write_gallery


def run(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def refused(found):
    """One line that begins with "error:", and the exit code of a mistake."""
    assert found.exception is None or isinstance(found.exception, SystemExit), found.exception
    assert found.exit_code == 2, found.output
    assert "Traceback" not in found.output
    return found.output


@pytest.mark.parametrize("verb", ["predict", "explain"])
def test_a_long_smiles(verb, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = run(verb, "C" * 300)
    assert found.exit_code == 0, found.output
    assert "is neither the folder of a model nor a molecule" in refused(run(verb, "C" * 5_000 + "("))
    assert "at most 500 are taken" in refused(run(verb, "C" * 600))


def test_a_name_with_a_zero_in_it():
    refused(run("predict", "CC\0O"))
    refused(run("lift", "a\0.csv", "-o", "s"))


@pytest.mark.parametrize("name", ["t.parquet", "t.csv.gz", "t.parquet.gz"])
def test_lift_of_files_that_are_not_whole(tmp_path, name):
    (tmp_path / name).write_bytes(b"PAR1 and more" if name == "t.parquet" else gzip.compress(b"smiles\nC\n" * 99)[:-9])
    assert "this is not a whole" in refused(run("lift", tmp_path / name, "-o", tmp_path / "s"))
    assert "this is not a whole" in refused(run("predict", tmp_path / name, "-o", tmp_path / "p.csv"))


def test_numbers_beyond_numbers(tmp_path):
    (tmp_path / "t.smi").write_text("CCO\n")
    refused(run("lift", tmp_path / "t.smi", "-o", tmp_path / "s", "--max-cells", 2**70))
    refused(run("train", "zinc-cin", "--seeds", f"0-{2**70}"))
    assert "at most" in refused(run("train", "zinc-cin", "--seeds", 2**70))


def test_an_output_that_is_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.smi").write_text("CCO\n")
    for output in (".", "..", tmp_path):
        assert "it is a folder" in refused(run("predict", "t.smi", "-o", output))


@pytest.mark.parametrize("text", ["", "{", "[]", "7", "[" * 100_000])
def test_a_damaged_request(tmp_path, text):
    (tmp_path / "t.csv").write_text("smiles,y\n" + "".join(f"{'C' * n},{n}\n" for n in range(1, 30)))
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "request.json").write_text(text)
    found = run("train", tmp_path / "t.csv", "--target-columns", "y", "--out", tmp_path / "m", "--resume", "-q")
    assert "request.json is damaged: choose another --out" in refused(found)


def test_a_table_without_a_readable_row(tmp_path):
    (tmp_path / "t.csv").write_text("smiles\nno\nnot\n")
    found = run("predict", tmp_path / "t.csv", "-o", tmp_path / "p.csv")
    assert found.exit_code == 1
    assert "no row of the table could be read" in found.output
    assert (tmp_path / "p.csv").read_text().count("does not parse") == 2
    assert run("fingerprint", "--cwl", tmp_path / "t.csv", "-o", tmp_path / "p.npz").exit_code == 1


def test_one_target_that_is_not_finite(tmp_path):
    (tmp_path / "t.csv").write_text("smiles,y\n" + "".join(f"{'C' * n},{n}\n" for n in range(1, 30)) + "CCO,inf\n")
    said = refused(run("train", tmp_path / "t.csv", "--out", tmp_path / "m", "-q"))
    assert "'inf' in the column 'y' is not a finite number of 32 bits" in said
    assert "row 31" in said


def test_pages_run_their_own_script_only(tmp_path):
    run("wl", "CCO", "CCN", "--html", tmp_path / "wl.html")
    page = (tmp_path / "wl.html").read_text()
    assert "default-src 'none'; script-src 'sha256-" in page
    script = page.rpartition("<script>")[2].partition("</script>")[0]
    assert base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() in page
    assert "unsafe" not in page.partition("<title>")[0]
    style = page.partition("<style>")[2].partition("</style>")[0]
    assert f"style-src 'sha256-{base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()}'" in page
    assert page.count("<style") == 1
    assert " style=" not in page
    assert 'createElement("style")' not in page
    write_gallery(tmp_path / "g.html", [], "t")
    page = (tmp_path / "g.html").read_text()
    assert "script-src" not in page
    assert "default-src 'none'" in page


def test_a_signal_leaves_no_part(tmp_path):
    (tmp_path / "t.smi").write_text("c1ccccc1CCO\n" * 200_000)
    script = "from cwnet.cli import main; import sys; sys.argv = ['cwnet', 'predict', 't.smi', '-o', 'p.csv']; main()"
    process = subprocess.Popen([sys.executable, "-c", script], cwd=tmp_path, stderr=subprocess.PIPE)
    for _ in range(600):
        time.sleep(0.1)
        if list(tmp_path.glob("*.part")) or list(tmp_path.glob(".*.part")):
            break
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert b"Traceback" not in said
    assert [file.name for file in tmp_path.iterdir()] == ["t.smi"]


def test_json_is_json(tmp_path):
    (tmp_path / "t.smi").write_text("CCO\n")
    found = run("predict", tmp_path / "t.smi", "-o", tmp_path / "p.csv", "--json")
    assert json.loads(found.stdout)["predicted"] == 1


@pytest.mark.parametrize("verb", ["wl-scan", "predict", "lift", "wl"])
@pytest.mark.parametrize("kind", ["pipe", "zero"])
def test_tables_that_never_end(tmp_path, monkeypatch, verb, kind):
    monkeypatch.chdir(tmp_path)
    if kind == "pipe":
        os.mkfifo("t.csv")
    else:
        os.symlink("/dev/zero", "t.csv")
    given = {"lift": ["-o", "s"], "wl": ["t.csv"]}.get(verb, [])
    assert "t.csv" in refused(run(verb, "t.csv", *given))
