"""Checks of the Triton kernels against the plain sums, for a GPU or for Triton's interpreter.

The plain sums in float64 are the truth: the kernels do not take float64, so the same function gives both. Run as a
module, with TRITON_INTERPRET=1 and CWNET_KERNELS=interpret, this goes through all checks on the CPU.
"""

import sys
import traceback
from functools import partial

import networkx as nx
import torch

from cwnet import Rings, lift
from cwnet.complexes import Csr, Incidence
from cwnet.nn import functional, kernels

TOLERANCE = {torch.float32: (1e-5, 2e-5), torch.bfloat16: (2**-7, 1e-4), torch.float16: (2**-10, 1e-4)}
ACTIVATIONS = list(functional.ACTIVATIONS)


def random_incidence(device, hubs=30, members=40, longest=6, seed=0):
    """Hubs with 0 to `longest` members. Some hubs and some members have no one."""
    rng = torch.Generator().manual_seed(seed)
    sizes = torch.randint(0, longest + 1, (hubs,), generator=rng)
    return on(device, [torch.randperm(members - 3, generator=rng)[:size].tolist() for size in sizes], members)


def on(device, hubs, members):
    down = Csr.from_lists(hubs)
    return Incidence.of(Csr(down.ptr.to(device), down.idx.to(device)), members)


def features(rows, width, device, dtype=torch.float32, seed=0):
    return torch.randn(rows, width, generator=torch.Generator().manual_seed(seed)).to(device, dtype)


def compare(call, inputs, rtol=None):
    """The values and the gradients of a function with the kernels, against itself in float64."""
    assert kernels.usable(inputs[0]), "the kernels are not in use"
    dtype = inputs[0].dtype
    ours = values_and_gradients(call, inputs, dtype)
    truth = values_and_gradients(call, [t.double() for t in inputs], dtype)
    usual, atol = TOLERANCE[dtype]
    for name, a, b in zip(("values", "first gradient", "second gradient"), ours, truth, strict=False):
        assert a.dtype == dtype
        torch.testing.assert_close(
            a.double(), b, rtol=rtol or usual, atol=atol, equal_nan=True, msg=lambda m, n=name: f"{n}: {m}"
        )


def values_and_gradients(call, inputs, dtype):
    """What a function gives, and its gradients for a gradient that `dtype` can hold."""
    inputs = [t.detach().requires_grad_() for t in inputs]
    out = call(*inputs)
    grad = features(*out.shape, out.device, dtype, seed=9).to(out.dtype)
    return [out.detach(), *torch.autograd.grad(out, inputs, grad)]


def compare_adjacent(incidence, width, act, dtype, device, rtol=None):
    x = features(incidence.up.num_rows, width, device, dtype, seed=1)
    shared = features(incidence.down.num_rows, width, device, dtype, seed=2)
    compare(lambda x, shared: functional.adjacent_sum(x, shared, incidence, act), [x, shared], rtol)


# ---------------------------------------------------------------------------------------------------------- the checks


def check_activation(act, dtype, device):
    compare_adjacent(random_incidence(device), 5, act, dtype, device)
    compare_adjacent(random_incidence(device).flipped(), 5, act, dtype, device)


def check_width(width, dtype, device):
    incidence = random_incidence(device, hubs=11, members=13)
    compare_adjacent(incidence, width, "elu", dtype, device)
    compare(lambda x: functional.incidence_sum(x, incidence), [features(13, width, device, dtype)])


def check_complex(device):
    """All four sums of a complex: two fused rings with a tail, and a vertex alone."""
    graph = nx.Graph([*nx.cycle_graph(6).edges, (0, 6), (6, 7), (7, 8), (8, 1), (8, 9)])
    graph.add_node(10)
    cells = lift(graph, Rings(6)).to(device)
    x = [features(n, 7, device, seed=d) for d, n in enumerate(cells.num_cells)]
    for d in (1, 2):
        compare(lambda x, d=d: functional.boundary_sum(x, cells, d), [x[d - 1]])
        compare(lambda x, d=d: functional.coboundary_sum(x, cells, d - 1), [x[d]])
        for act in ("relu", "elu"):
            compare(lambda x, s, d=d, a=act: functional.upper_sum(x, s, cells, d - 1, a), [x[d - 1], x[d]])
            compare(lambda x, s, d=d, a=act: functional.lower_sum(x, s, cells, d, a), [x[d], x[d - 1]])
        compare(lambda x, d=d: functional.upper_sum(x, None, cells, d - 1, "tanh"), [x[d - 1]])


def check_big_row(device):
    """One hub with 500 members among small ones; flipped, one member with 500 hubs."""
    incidence = on(device, [[0, 1], [3], list(range(500)), [], [2, 499, 7]], 500)
    for one in (incidence, incidence.flipped()):
        compare_adjacent(one, 3, "relu", torch.float32, device, rtol=5e-5)


def check_nothing(device):
    """No cells, no entries, no columns."""
    for hubs, members, width in [([], 0, 4), ([], 3, 4), ([[], []], 3, 4), ([[], []], 0, 4), ([[0, 1]], 3, 0)]:
        incidence = on(device, hubs, members)
        compare(lambda x, i=incidence: functional.incidence_sum(x, i), [features(members, width, device)])
        for one in (incidence, incidence.flipped()):
            compare_adjacent(one, width, "relu", torch.float32, device)


def check_strides(device):
    """Transposed, cut and expanded tensors."""
    incidence = random_incidence(device)
    x, shared = features(12, 40, device).t(), features(30, 50, device)[:, 7:19]
    compare(lambda x, s: functional.adjacent_sum(x, s, incidence, "elu"), [x, shared])
    compare(lambda x: functional.incidence_sum(x, incidence), [x])
    wide = features(1, 12, device).expand(40, 12)
    compare(lambda x: functional.incidence_sum(x, incidence).sum(0, keepdim=True), [wide])


def check_narrow_indices(device):
    """Indices in 32 bits, and index tensors that start anywhere, give the same bits."""
    incidence = random_incidence(device)
    x, shared = features(40, 12, device), features(30, 12, device)
    grad = features(40, 12, device, seed=3)

    def everything(i):
        return (
            kernels.gather_sum(x, i.down),
            kernels.adjacent_sum(x, shared, i, "relu"),
            *kernels.adjacent_sum_backward(grad, x, shared, i, "relu"),
        )

    narrow = Incidence(incidence.down.packed(), incidence.up.packed(), incidence.down_rows, incidence.up_rows)
    shifted = Incidence(*(Csr(shift(c.ptr), shift(c.idx)) for c in incidence[:2]), *incidence[2:])
    for other in (narrow, shifted):
        for a, b in zip(everything(incidence), everything(other), strict=True):
            assert torch.equal(a, b)


def shift(t):
    return torch.cat([t[:1], t])[1:]


def check_same_bits(dtype, device):
    """Two runs give the same bits."""
    incidence = random_incidence(device, *((30, 40) if device == "cpu" else (20_000, 30_000)))
    x = features(incidence.up.num_rows, 33, device, dtype, seed=1)
    shared = features(incidence.down.num_rows, 33, device, dtype, seed=2)
    runs = [
        values_and_gradients(lambda x, s: functional.adjacent_sum(x, s, incidence, "silu"), [x, shared], dtype)
        for _ in range(2)
    ]
    for a, b in zip(*runs, strict=True):
        assert torch.equal(a, b)


def check_nan(act, device):
    """NaN and infinity go where they go in the plain sums, and nowhere else."""
    incidence = random_incidence(device)
    x, shared = features(40, 4, device, seed=1), features(30, 4, device, seed=2)
    x[5, 1], shared[7, 2], shared[9, 0] = float("nan"), float("nan"), float("inf")
    compare(lambda x, s: functional.adjacent_sum(x, s, incidence, act), [x, shared])


DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}

#: Every check by name. Each takes a device.
CHECKS = {
    **{f"{a}, {n}": partial(check_activation, a, t) for a in ACTIVATIONS for n, t in DTYPES.items()},
    **{f"width {w}, {n}": partial(check_width, w, t) for w in (1, 5, 48, 64, 130) for n, t in DTYPES.items()},
    "width 48, float16": partial(check_width, 48, torch.float16),
    "complex": check_complex,
    "one big row": check_big_row,
    "nothing": check_nothing,
    "strides": check_strides,
    "indices in 32 bits": check_narrow_indices,
    **{f"same bits, {n}": partial(check_same_bits, t) for n, t in DTYPES.items()},
    **{f"NaN, {a}": partial(check_nan, a) for a in ACTIVATIONS},
}


def main() -> int:
    torch.set_num_threads(1)
    failed = 0
    for name, check in CHECKS.items():
        try:
            check("cpu")
        except Exception:
            failed += 1
            print(f"--- {name}\n{traceback.format_exc()}")
    print(f"{len(CHECKS) - failed} of {len(CHECKS)} checks passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
