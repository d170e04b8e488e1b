"""Splits by time: what was measured first is trained on, what was measured last is tested on."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from datetime import date, datetime, time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cwnet.data._splits import Fractions, Split, SplitError, check_fractions, nonempty

__all__ = ["time_split"]

#: A year, a month, a day and what may follow it. Days or months first are read as either in different countries.
_DATE = re.compile(r"(\d{4})(?:[-/](\d{1,2})(?:[-/](\d{1,2})(?:[T ](.+))?)?)?")


def time_split(
    values: Iterable[Any], fractions: Fractions = (0.8, 0.1, 0.1), *, rows: Iterable[int] | None = None
) -> Split:
    """Split by a column of times: the oldest graphs are for train, the newest for test, those between for val.

    Times are numbers, such as years, or dates: a year, a month and a day in this order, as in 2019, 2019-04, 2019-04-30
    or 2019-04-30 17:15. Graphs of one time are in the order of the column, and may be in two parts.

    Args:
        values: the column.
        fractions: shares of train, val and test. They add up to 1.
        rows: the number of each row in its file, for messages. By default they are counted from 0.

    Raises:
        SplitError: for what is neither a number nor a date, with its row; or if a part would be empty.

    >>> time_split([2004, 2001, 2003, 2002], (0.5, 0.25, 0.25)).train.tolist()
    [1, 3]
    """
    check_fractions(fractions)
    values = list(values)
    times = _times(values, range(len(values)) if rows is None else list(rows))
    ends = [math.floor(sum(fractions[:i]) * len(times) + 0.5) for i in range(1, 3)]
    parts = np.split(np.argsort(times, kind="stable"), ends)
    return nonempty([np.sort(part) for part in parts], fractions, "take more graphs or other fractions")


def _times(values: Sequence[Any], rows: Sequence[int]) -> NDArray[np.float64]:
    """All as numbers, or all as dates; a year alone is both."""
    numbers, dates = [_number(value) for value in values], [_seconds(value) for value in values]
    chosen = dates if None in numbers else numbers
    # A cell that is neither is named before one that is a number among dates.
    for bad in ([a is None and b is None for a, b in zip(numbers, dates, strict=True)], [t is None for t in chosen]):
        if True in bad:
            value, row = values[bad.index(True)], rows[bad.index(True)]
            what = "empty" if value is None or not str(value).strip() else f"{value!r}"
            raise SplitError(f"row {row}: the time is {what}: write a number, or a date as in 2019-04-30, in all rows")
    return np.array(chosen, dtype=np.float64)


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _seconds(value: Any) -> float | None:
    """Seconds since the year 1, whatever the time zone of this machine."""
    if isinstance(value, date):
        moment = value if isinstance(value, datetime) else datetime.combine(value, time())
    else:
        match = _DATE.fullmatch(str(value).strip())
        if match is None:
            return None
        year, month, day = (int(part or 1) for part in match.groups()[:3])
        try:
            moment = datetime.fromisoformat(f"{year:04}-{month:02}-{day:02}T{match[4] or '00:00'}")
        except ValueError:
            return None
    offset = moment.utcoffset()
    moment = moment.replace(tzinfo=None)
    return (moment - datetime.min).total_seconds() - (offset.total_seconds() if offset else 0.0)
