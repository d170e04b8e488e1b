"""Numbers of atoms and bonds on drawings."""

import io

import numpy as np
import pytest

pytest.importorskip("rdkit")

import cwnet
from cwnet.chem._cell_values import draw_cell_values, limits_of
from cwnet.chem._read import parse

NAN = float("nan")


def drawn(values, dim, **options):
    mols = [parse("CCO"), parse("C1CC1")]
    return draw_cell_values(mols, [cwnet.lift(mol, cwnet.Rings(6)) for mol in mols], values, dim, **options)


def svg(figure):
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg")
    return buffer.getvalue()


def test_every_number_has_a_ground():
    text = svg(drawn({"true": [[1, -1, 0], [0, 0, NAN]], "said": [[1, 1, 0], [0, 0, 1]]}, 0, label="charge"))
    grounds = [f"{name}-{m}-{i}" for name in ("true", "said") for m in (0, 1) for i in range(3)]
    assert [g for g in grounds if f'id="{g}"' not in text] == ["true-1-2"]


def test_bonds_have_theirs(tmp_path):
    figure = drawn({"true": [[1.0, 2.0], [3.0, 4.0, NAN]]}, 1, path=tmp_path / "x.png")
    text = svg(figure)
    assert [i for i in range(3) if f'id="true-1-{i}"' in text] == [0, 1]
    assert (tmp_path / "x.png").stat().st_size


def test_colours_are_those_of_the_scale():
    figure = drawn({"true": [[-2, 0, 2], [-9, 9, 0]]}, 0, limits=(-2, 2))
    circles = {p.get_gid(): p.get_facecolor() for axes in figure.axes for p in axes.patches if p.get_gid()}
    assert circles["true-0-1"] == pytest.approx((1, 1, 1, 1), abs=0.01)
    assert circles["true-0-0"] == circles["true-1-0"]
    assert circles["true-0-2"] == circles["true-1-1"] != circles["true-0-0"]


def test_limits():
    assert limits_of([-1.0] * 50 + [3.0] * 50) == (-3.0, 3.0)
    assert limits_of([2.0, 2.0, NAN]) == (2.0, 3.0)
    assert limits_of([]) == (0.0, 1.0)
    low, high = limits_of(np.arange(101.0))
    assert (low, high) == pytest.approx((2, 98))


def test_numbers_that_do_not_fit():
    with pytest.raises(ValueError, match="3 cells of dimension 0"):
        drawn({"true": [[1.0], [1.0, 2.0, 3.0]]}, 0)
