"""Splits by time."""

from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cwnet.data import SplitError, time_split


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=10, max_size=60))
def test_what_is_older_is_trained_on(times):
    split = time_split(times)
    train, val, test = ([times[i] for i in part.tolist()] for part in (split.train, split.val, split.test))
    assert max(train) <= min(val)
    assert max(val) <= min(test)
    assert len(split) == len(times)


@pytest.mark.parametrize(
    "times",
    [
        ["2019-04-30", "2020-01-01", "2018-12-31", "2019-05-01"],
        ["2019-04", "2020", "2018-12-31 23:59", "2019/5/1"],
        [date(2019, 4, 30), datetime(2020, 1, 1, 12, tzinfo=UTC), "2018-12-31", date(2019, 5, 1)],
        ["2019-05-01T01:00+02:00", "2019-05-03", "2019-01-01", "2019-04-30T23:30"],
        ["17", "1e3", "-4", "17.5"],
        [2.0, 3, 1, 2.5],
    ],
)
def test_dates_and_numbers(times):
    split = time_split(times, (0.5, 0.25, 0.25))
    assert [part.tolist() for part in (split.train, split.val, split.test)] == [[0, 2], [3], [1]]


@pytest.mark.parametrize(
    ("times", "message"),
    [
        (["2019-04-30", "spring", "2019"], "row 3: the time is 'spring': write a number, or a date as in"),
        (["2019-04-30", "30/04/2019", "2019"], "row 3: the time is '30/04/2019'"),
        (["2019-04-30", "2019-13-01", "2019"], "row 3: the time is '2019-13-01'"),
        ([1, None, 3], "row 3: the time is empty"),
        ([1, " ", 3], "row 3: the time is empty"),
        (["2019-04-30", "17.5", "2019"], "row 3: the time is .17.5.: .* in all rows"),
        ([1, float("nan"), 3], "row 3: the time is nan"),
    ],
)
def test_a_cell_that_is_neither(times, message):
    with pytest.raises(SplitError, match=message):
        time_split(times, rows=[2, 3, 4])


def test_times_in_the_order_of_rows_where_they_are_the_same():
    split = time_split([7] * 10)
    assert (split.train.tolist(), split.test.tolist()) == (list(range(8)), [9])
    with pytest.raises(SplitError, match="val would be empty"):
        time_split([1, 2])
