"""The command as a whole."""

import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from cwnet.cli import app

VERBS = (
    "train",
    "predict",
    "explain",
    "fingerprint",
    "explore",
    "wl",
    "wl-scan",
    "data",
    "lift",
    "dedup",
    "reproduce",
    "bench",
)


def run(*arguments, **environment):
    return CliRunner().invoke(app, list(arguments), env=environment)


def test_help_names_the_verbs():
    found = run("--help")
    assert found.exit_code == 0
    for verb in VERBS:
        assert verb in found.output


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_an_example(verb):
    found = run(verb, "--help")
    assert found.exit_code == 0
    assert f"cwnet {verb}" in found.output


def test_shells_complete_verbs():
    asked = {**os.environ, "_CWNET_COMPLETE": "complete_bash", "COMP_WORDS": "cwnet fi", "COMP_CWORD": "1"}
    command = [sys.executable, "-c", "from cwnet.cli import main; main()"]
    found = subprocess.run(command, env=asked, capture_output=True, text=True)
    assert found.stdout.split() == ["fingerprint"]
    assert "--install-completion" in run("--help", COLUMNS="120").output


def test_exit_codes():
    assert run("--version").exit_code == 0
    assert run("no-such-verb").exit_code == 2
    assert run("predict", "--no-such-option").exit_code == 2
