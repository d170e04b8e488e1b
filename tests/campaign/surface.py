"""What a surface is, and what can become of an input."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cwnet.errors import CwnetError

__all__ = ["OK", "OUTCOMES", "REFUSED", "Surface", "Wrong", "chance_of", "outcome_of"]

#: Taken, with the right result; and refused with an error of ours.
OK, REFUSED = "ok", "refused"
#: All that can become of an input. The last four are defects.
OUTCOMES = (OK, REFUSED, "wrong", "traceback", "hang", "crash")


class Wrong(Exception):
    """An answer that differs from the right one, without a word."""


@dataclass(frozen=True)
class Surface:
    """A way in.

    Attributes:
        name: what it is called.
        inputs: what an input is, in words.
        attack: tries one input, drawn with the random numbers given, on what `prepare` made; gives `OK` or `REFUSED`,
            and raises `Wrong` where an answer is wrong. Errors of ours count as refused, all others as tracebacks.
        prepare: makes what all inputs have in common, in an empty folder of the worker's.
        seconds: how long an input may take, before it counts as a hang.
        wanted: inputs of a whole campaign.
    """

    name: str
    inputs: str
    attack: Callable[[random.Random, Any], str]
    prepare: Callable[[Path], Any]
    seconds: float
    wanted: int


def chance_of(seed: int, surface: Surface, number: int) -> random.Random:
    """The random numbers of an input: the same whenever it is tried."""
    return random.Random(f"{seed} {surface.name} {number}")


def outcome_of(surface: Surface, chance: random.Random, material: Any) -> tuple[str, BaseException | None]:
    """Try one input."""
    try:
        return surface.attack(chance, material), None
    except CwnetError:
        return REFUSED, None
    except Wrong as error:
        return "wrong", error
    except Exception as error:
        return "traceback", error
