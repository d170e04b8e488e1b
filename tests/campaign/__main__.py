"""Run the campaign, or a part of it, and write its counts.

python -m tests.campaign --seconds 3600           an hour of it, from where it was stopped
python -m tests.campaign --report                 the counts so far into docs/reliability.md
python -m tests.campaign --again smiles 4711      one input once more, here, with its traceback
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import select
import subprocess
import sys
import tempfile
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

from tests.campaign.surface import OUTCOMES, Surface, chance_of
from tests.campaign.surfaces import SURFACES

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reliability.md"
BEGIN, END = "<!-- campaign: written by `make campaign` -->", "<!-- campaign: end -->"
#: Seconds of work before a worker hands over what it has counted.
CHUNK = 45.0
#: Seconds that a worker may take to start and prepare.
START = 180.0


class Campaign:
    """What has been tried, in a folder: counts by surface, the next input of each, and notes of what was bad."""

    def __init__(self, folder: Path, seed: int) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.file, self.notes = folder / "state.json", folder / "notes.txt"
        self.lock = threading.Lock()
        self.state = json.loads(self.file.read_text()) if self.file.exists() else {"seed": seed, "surfaces": {}}
        if self.state["seed"] != seed:
            sys.exit(f"{folder} holds a campaign of seed {self.state['seed']}: choose another --folder, or that seed")

    def of(self, surface: Surface) -> dict:
        fresh = {"next": 0, "counts": dict.fromkeys(OUTCOMES, 0), "bad": [], "seconds": 0.0}
        return self.state["surfaces"].setdefault(surface.name, fresh)

    def save(self) -> None:
        part = self.file.with_suffix(".part")
        part.write_text(json.dumps(self.state, indent=1))
        part.replace(self.file)

    def most_behind(self, names: list[str], busy: set[str], scale: float) -> Surface | None:
        """The surface with the least of its inputs done, if any has inputs left."""
        left = [
            (self.of(s)["next"] / (s.wanted * scale), s.name)
            for s in SURFACES.values()
            if s.name in names and s.name not in busy and self.of(s)["next"] < s.wanted * scale
        ]
        return SURFACES[min(left)[1]] if left else None

    def chunk(self, surface: Surface, seconds: float, count: int) -> None:
        """Some inputs of a surface, in a process that may crash or hang."""
        mine = self.of(surface)
        start = time.monotonic()
        command = [sys.executable, "-m", "tests.campaign.worker", surface.name, str(self.state["seed"])]
        command += [str(mine["next"]), str(count), str(seconds), str(self.notes.absolute())]
        with tempfile.TemporaryFile() as said:
            worker = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=said, start_new_session=True)
            last = self._listen(worker, surface, mine)
            if last is not None:
                said.seek(0)
                with self.lock, open(self.notes, "a") as file:
                    file.write(
                        f"=== {surface.name} {mine['next']}: {last}\n{said.read()[-4000:].decode(errors='replace')}\n"
                    )
        with self.lock:
            if last == "no start":
                sys.exit(f"the worker of {surface.name} does not start: see {self.notes}")
            if last is not None:
                self._count(mine, last)
            mine["seconds"] += time.monotonic() - start
            self.save()

    def _listen(self, worker: subprocess.Popen, surface: Surface, mine: dict) -> str | None:
        """Count what a worker tells, until it ends; "hang" or "crash" where it does so in the middle of an input."""
        ready = False
        assert worker.stdout is not None
        while True:
            if not select.select([worker.stdout], [], [], surface.seconds if ready else START)[0]:
                os.killpg(worker.pid, 9)
                worker.wait()
                return "hang" if ready else "no start"
            told = os.read(worker.stdout.fileno(), 4096)
            if not told:
                break
            for letter in told:
                if ready:
                    self._count(mine, OUTCOMES[letter])
                ready = True
        return None if worker.wait() == 0 else "crash" if ready else "no start"

    def _count(self, mine: dict, outcome: str) -> None:
        if OUTCOMES.index(outcome) >= 2:
            mine["bad"].append([mine["next"], outcome])
        mine["counts"][outcome] += 1
        mine["next"] += 1


def run(campaign: Campaign, names: list[str], seconds: float, cores: int, scale: float) -> None:
    """Work on the surfaces that are most behind, one per core, until the time is over or all is done."""
    end = time.monotonic() + seconds
    busy: set[str] = set()

    def work() -> None:
        while (left := end - time.monotonic()) > 0:
            with campaign.lock:
                surface = campaign.most_behind(names, busy, scale)
                if surface is None:
                    return
                busy.add(surface.name)
            try:
                rest = -(-int(surface.wanted * scale) // 1) - campaign.of(surface)["next"]
                campaign.chunk(surface, min(CHUNK, left), max(rest, 1))
            finally:
                with campaign.lock:
                    busy.discard(surface.name)

    threads = [threading.Thread(target=work) for _ in range(cores)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def retry(campaign: Campaign) -> None:
    """Try what was bad once more, after it was mended, and count it as what becomes of it now."""
    for surface in SURFACES.values():
        mine = campaign.of(surface)
        bad, goal = mine["bad"], mine["next"]
        mine["bad"] = []
        for number, outcome in bad:
            mine["next"] = number
            mine["counts"][outcome] -= 1
            campaign.chunk(surface, 0, 1)
        mine["next"] = goal
    campaign.save()


def table(campaign: Campaign) -> str:
    """The counts as the page shows them."""
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True)
    model = next((line for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line), ": unknown")
    lines = [
        f"Seed {campaign.state['seed']}, {datetime.now(UTC):%Y-%m-%d}, commit {commit.stdout.strip()}, "
        f"{os.cpu_count()} cores {model.partition(': ')[2]}, Python {platform.python_version()}, written by "
        "`python -m tests.campaign --report`.",
        "",
        f"| surface | an input is | inputs | {' | '.join(OUTCOMES)} |",
        f"|---|---|{'---:|' * (1 + len(OUTCOMES))}",
    ]
    total = dict.fromkeys(OUTCOMES, 0)
    for surface in SURFACES.values():
        counts = campaign.of(surface)["counts"]
        for key in OUTCOMES:
            total[key] += counts[key]
        figures = " | ".join(f"{counts[key]:,}" for key in OUTCOMES)
        lines.append(f"| {surface.name} | {surface.inputs} | {sum(counts.values()):,} | {figures} |")
    figures = " | ".join(f"**{total[key]:,}**" for key in OUTCOMES)
    lines.append(f"| **all** | | **{sum(total.values()):,}** | {figures} |")
    return "\n".join(lines)


def report(campaign: Campaign) -> None:
    """Write the counts between the markers of the page."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{table(campaign)}\n{END}{after}")


def again(surface: Surface, seed: int, number: int) -> None:
    """Try one input in this process."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        print(surface.attack(chance_of(seed, surface, number), surface.prepare(Path(folder))))


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.campaign", description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "campaign", help="where counts are kept")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop after so long; by default when done")
    parser.add_argument("--surface", action="append", choices=list(SURFACES), help="these alone")
    parser.add_argument("--scale", type=float, default=1.0, help="times the inputs of a whole campaign")
    parser.add_argument("--cores", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--report", action="store_true", help="only write the counts to the page")
    parser.add_argument("--retry", action="store_true", help="only try once more what was bad")
    parser.add_argument("--again", nargs=2, metavar=("SURFACE", "NUMBER"), help="try one input here")
    given = parser.parse_args()
    if given.again:
        return again(SURFACES[given.again[0]], given.seed, int(given.again[1]))
    campaign = Campaign(given.folder, given.seed)
    if given.retry:
        retry(campaign)
    elif not given.report:
        run(campaign, given.surface or list(SURFACES), given.seconds, given.cores, given.scale)
    if given.report or given.seconds == float("inf"):
        report(campaign)
    print(table(campaign))
    if any(of["bad"] for of in campaign.state["surfaces"].values()):
        sys.exit(f"there are defects: see {campaign.notes}")
    return None


if __name__ == "__main__":
    main()
