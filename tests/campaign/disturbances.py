"""Long verbs that are killed, signalled, run twice at once, or on a full disk: the same bytes in the end."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.campaign.surface import OK, REFUSED, Surface, Wrong
from tests.campaign.verbs import VERBS, Verbs, call, end_verb, start_verb


def kill(chance: random.Random, verbs: Verbs) -> str:
    """SIGKILL at a random moment, now and then twice; then the same again, to the end."""
    name = chance.choice(list(VERBS))
    _, seconds = verbs.right(name)
    folder = verbs.fresh(VERBS[name])
    for _ in range(chance.choice([1, 1, 1, 2])):
        verb = VERBS[name]
        arguments = verb.again if verb.again is not None and (folder / "m").exists() else verb.first
        call(arguments, folder, after=chance.random() * seconds)
    _no_half(name, folder, verbs)
    verbs.finish(name, folder)
    shutil.rmtree(folder)
    return OK


def send(chance: random.Random, verbs: Verbs) -> str:
    """SIGTERM, SIGINT or SIGHUP at a random moment: nothing half, nothing left, and the same in the end."""
    name = chance.choice(list(VERBS))
    _, seconds = verbs.right(name)
    folder = verbs.fresh(VERBS[name])
    number = chance.choice([signal.SIGTERM, signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
    ended = call(VERBS[name].first, folder, after=chance.random() * seconds, number=number)
    if ended.code not in (0, 128 + number, -number):
        raise Wrong(f"{name} ended with {ended.code} on signal {number}: {ended.said[-500:]}")
    _no_half(name, folder, verbs)
    left = [file.name for file in folder.iterdir() if file.name.endswith(".part")]
    if left and ended.code == 128 + number:
        raise Wrong(f"{name} left {left} on signal {number}")
    verbs.finish(name, folder)
    shutil.rmtree(folder)
    return OK


def twice(chance: random.Random, verbs: Verbs) -> str:
    """Two processes with the same work in the same folder: both end, at least one well or after one goes on."""
    name = chance.choice(list(VERBS))
    _, seconds = verbs.right(name)
    folder = verbs.fresh(VERBS[name])
    other = start_verb(VERBS[name].first, folder, None)
    try:
        mine = call(VERBS[name].first, folder, after=chance.choice([None, None, chance.random() * seconds]))
    finally:
        its = end_verb(*other, None, signal.SIGKILL, 150)
    for ended in (mine, its):
        if ended.code not in (0, 2, -signal.SIGKILL):
            raise Wrong(f"two of {name} at once: {ended.code} {ended.said[-500:]}")
    verbs.finish(name, folder)
    shutil.rmtree(folder)
    return OK


def fill_disk(chance: random.Random, verbs: Verbs) -> str:
    """No room at some moment, by a limit on files or on a small disk: a line, nothing half, and the same in the end."""
    name = chance.choice(list(VERBS))
    verbs.right(name)
    folder = verbs.fresh(VERBS[name])
    room = int(10 ** chance.uniform(0, 5.5))
    mounted = chance.random() < 0.5 and _mount(folder, room + 60_000, lambda: verbs.fill(VERBS[name], folder))
    try:
        limits = (room, resource.RLIM_INFINITY)
        before = None if mounted else lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        ended = call(VERBS[name].first, folder, before=before)
        if ended.code not in (0, 1, 2):
            raise Wrong(f"{name} with {room} bytes: {ended.code} {ended.said[-500:]}")
        _no_half(name, folder, verbs)
        if mounted:
            subprocess.run(["mount", "-o", "remount,size=200m", str(folder)], check=True)
        verbs.finish(name, folder)
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(folder)], check=True)
    shutil.rmtree(folder)
    return OK if ended.code == 0 else REFUSED


def _mount(folder: Path, room: int, fill: Callable[[], None]) -> bool:
    """A small disk in place of a folder, with the same in it; False where that is not allowed."""
    size = f"size={max(room, 4096)}"
    if (
        os.geteuid()
        or subprocess.run(["mount", "-t", "tmpfs", "-o", size, "tmpfs", str(folder)], check=False).returncode
    ):
        return False
    try:
        fill()
    except OSError:
        subprocess.run(["umount", "-l", str(folder)], check=True)
        return False
    return True


def _no_half(name: str, folder: Path, verbs: Verbs) -> None:
    """A file that is there under its own name is whole."""
    output = VERBS[name].output
    if output is not None and (folder / output).exists() and VERBS[name].result(folder) != verbs.right(name)[0]:
        raise Wrong(f"{name} left half of {output} behind")


SURFACES = (
    Surface("kills", "`kill -9` at a random moment of a long verb, which is then gone on with", kill, Verbs, 300, 205),
    Surface("signals", "SIGTERM, SIGINT or SIGHUP at a random moment of a long verb", send, Verbs, 300, 60),
    Surface("two at once", "the same verb twice at once in one folder", twice, Verbs, 300, 40),
    Surface("full disks", "a long verb without room for what it writes", fill_disk, Verbs, 300, 60),
)
