"""The journal of a search: a line of JSON for what was asked, and one for each trial that is done."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from cwnet.data._files import read_plain, write_whole
from cwnet.errors import CwnetError

__all__ = ["Journal", "Trial"]

_FILE = "journal.jsonl"


@dataclass(frozen=True)
class Trial:
    """A candidate that was trained.

    Attributes:
        number: of the candidate, from 0, which is the default.
        epochs: at the most.
        wish: its settings, where they are not the default.
        figure: of the validation part; None where training failed.
        seconds: it took.
        why: it failed.
    """

    number: int
    epochs: int
    wish: Mapping[str, Any]
    figure: float | None
    seconds: float
    why: str = ""


@dataclass
class Journal:
    """The trials that are done, in a file that is always whole.

    Attributes:
        path: of the file.
        asked: what decides the figures of trials; a journal goes on only with the same.
        trials: in the order in which they were done.
    """

    path: Path
    asked: Mapping[str, Any]
    trials: list[Trial] = field(default_factory=list)

    @classmethod
    def opened(cls, folder: Path, asked: Mapping[str, Any], resume: bool) -> Journal:
        """The journal of a folder; a new one where there is none.

        Raises:
            CwnetError: for a journal of another search, or one that is not to be gone on with.
        """
        path = folder / _FILE
        if path.exists():
            if not resume:
                raise CwnetError(f"{folder} holds a search already: go on with it by --resume, or choose another --out")
            found = cls._read(path)
            for key, value in asked.items():
                if found.asked.get(key) != value:
                    raise CwnetError(f"{folder} was begun with other {key}: give the same, or another --out")
            return found
        try:
            folder.mkdir(parents=True, exist_ok=True)
            found = cls(path, asked)
            found._write()
        except OSError as error:
            raise CwnetError(f"{folder} cannot be written: {error.strerror}. Choose another --out") from None
        return found

    @classmethod
    def _read(cls, path: Path) -> Journal:
        trials: list[Trial] = []
        asked: dict[str, Any] = {}
        try:
            lines = read_plain(path, 2**28).decode().splitlines()
            asked = dict(json.loads(lines[0])["asked"])
            for line in lines[1:]:
                trials.append(_checked(json.loads(line)))  # noqa: PERF401, their number says which line is damaged
        except (OSError, ValueError, KeyError, IndexError, TypeError, RecursionError):
            where = f"{path} is damaged in line {len(trials) + 2 if asked else 1}"
            raise CwnetError(f"{where}: delete the line, or choose another --out") from None
        return cls(path, asked, trials)

    @property
    def seconds(self) -> float:
        """All trials took."""
        return sum(trial.seconds for trial in self.trials)

    def find(self, number: int, epochs: int, wish: Mapping[str, Any]) -> Trial | None:
        """The trial of a candidate, if it is done."""
        for trial in self.trials:
            if (trial.number, trial.epochs) == (number, epochs):
                if trial.wish != wish:
                    raise CwnetError(
                        f"{self.path} has other settings for trial {number + 1} than are drawn now: it is of another "
                        "version of cwnet. Choose another --out"
                    )
                return trial
        return None

    def add(self, trial: Trial) -> None:
        """Write down a trial."""
        self.trials.append(trial)
        self._write()

    def _write(self) -> None:
        lines = [{"asked": self.asked}, *map(asdict, self.trials)]
        write_whole(self.path, "".join(json.dumps(line) + "\n" for line in lines).encode())


def _checked(line: Any) -> Trial:
    trial = Trial(**line)
    numbers = (type(trial.number), type(trial.epochs), type(trial.why)) == (int, int, str)
    figures = isinstance(trial.seconds, float) and (trial.figure is None or isinstance(trial.figure, float))
    if not numbers or not figures or not isinstance(trial.wish, dict):
        raise ValueError(f"this is no trial: {line!s:.200}")
    return trial
