"""Files that are written whole or not at all, and never in the place of what is no file."""

import os
import subprocess
import sys
import threading

import pytest

from cwnet import _files
from cwnet.data._files import whole_file, write_whole


def test_a_link_stays_and_what_it_leads_to_is_written(tmp_path):
    (tmp_path / "far").mkdir()
    (tmp_path / "link.csv").symlink_to(tmp_path / "far" / "real.csv")
    for text in (b"one", b"two"):
        write_whole(tmp_path / "link.csv", text)
        assert (tmp_path / "link.csv").is_symlink()
        assert (tmp_path / "far" / "real.csv").read_bytes() == text
    assert os.listdir(tmp_path / "far") == ["real.csv"]


def test_a_device_is_written_to_and_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    found = []
    reader = threading.Thread(target=lambda: found.append((tmp_path / "pipe").read_bytes()))
    reader.start()
    write_whole(tmp_path / "pipe", b"through")
    reader.join(10)
    assert found == [b"through"]
    assert (tmp_path / "pipe").is_fifo()
    write_whole("/dev/null", b"nothing")
    assert os.path.exists("/dev/null")
    assert not os.path.isfile("/dev/null")


@pytest.mark.parametrize("name", [".", "..", "folder", "/"])
def test_a_folder_is_refused(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="is a folder"):
        write_whole(name, b"x")


def test_nothing_is_left_of_what_fails(tmp_path):
    (tmp_path / "a").write_text("before")

    def fail():
        with whole_file(tmp_path / "a") as part:
            part.write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert (tmp_path / "a").read_text() == "before"
    assert os.listdir(tmp_path) == ["a"]


FULL = """
import resource, signal, sys
from cwnet.cli import app
{before}
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, {size}))
app({arguments!r})
"""


@pytest.mark.parametrize(
    ("arguments", "size"),
    [
        (["wl", "CCO", "CCN", "--html", "out.html"], 4_000),
        (["explain", "c1ccccc1O", "-o", "out.pdf"], 2_000),
        (["predict", "in.smi", "-o", "out.csv"], 100),
    ],
    ids=lambda value: "-".join(value[:1]) if isinstance(value, list) else "",
)
def test_a_full_disk_leaves_no_half_file_and_no_traceback(tmp_path, arguments, size):
    """The system refuses to write more than so many bytes to a file."""
    (tmp_path / "in.smi").write_text("CCO\nCCN\nCCC\n" * 40)
    script = FULL.format(arguments=arguments, size=size, before="import matplotlib.font_manager")
    run = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode == 2, run.stderr[-800:]
    assert "Traceback" not in run.stderr
    assert "File too large" in run.stderr
    assert os.listdir(tmp_path) == ["in.smi"]


@pytest.mark.parametrize("windows", [False, True])
def test_a_lock_is_held_by_one_at_a_time(tmp_path, monkeypatch, windows):
    """Where there is no fcntl, as on Windows, the lock is a file beside what is locked."""
    if windows:
        pytest.importorskip("filelock")
        monkeypatch.setattr(_files, "fcntl", None)
    with _files.locked(tmp_path), pytest.raises(BlockingIOError), _files.locked(tmp_path, wait=False):
        pass
    with _files.locked(tmp_path, wait=False):
        assert tmp_path.with_name(f"{tmp_path.name}.lock").exists() == windows
