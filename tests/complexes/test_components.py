"""Connected components, also where SciPy is old."""

import numpy as np
import pytest

from cwnet.complexes._components import connected_components


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_components(kind):
    a, b = np.array([[0, 1], [1, 2], [5, 3]], dtype=kind).T
    count, label = connected_components(6, a, b)
    assert count == 3
    assert label[0] == label[1] == label[2]
    assert label[3] == label[5]
    assert len({label[0], label[3], label[4]}) == 3


def test_no_edges():
    count, label = connected_components(2, *np.zeros((2, 0), dtype=np.int64))
    assert (count, sorted(label)) == (2, [0, 1])
