"""Training on a GPU: the whole step, from the numbers of complexes to new weights, is one CUDA graph."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from cwnet.complexes import ComplexStore
from cwnet.nn import CellEncoder, kernels
from cwnet.train._adam import GraphAdam
from cwnet.train._objectives import Objective
from cwnet.train._padded import PaddedBatch, PaddedBatches, Resident
from cwnet.train._recipe import TrainRecipe
from cwnet.train._state import OptimiserMaker, Precision, State, gathered

__all__ = ["GraphSteps"]

#: Complexes per batch of evaluation: running averages are used there, so any number gives the same.
_EVAL_BATCH = 1024
#: Seconds to sleep when the device is not done yet.
_MOMENT = 5e-5


class _Size:
    """Batches padded to one capacity: which come in which step, their losses, and the step as it was recorded."""

    def __init__(self, batches: PaddedBatches) -> None:
        self.batches = batches
        self.losses = torch.zeros(0, device=batches.step.device)
        self.graph: torch.cuda.CUDAGraph | None = None

    def plan(self, batches: Sequence[Tensor], room: int) -> None:
        """Lay out an epoch; a graph that saw other memory is let go."""
        if not self.batches.plan(batches, room):
            self.losses, self.graph = torch.zeros(room, device=self.losses.device), None


class GraphSteps:
    """Steps on padded batches, recorded once and replayed. Runs side by side have a stream and graphs each.

    The store lies on the GPU, and a batch is gathered there; between two epochs the host says nothing but which
    complexes come in which step. There is a graph for each of a few sizes of batches, and a batch takes the smallest it
    fits in. One too large for all of them takes the eager step, and is counted in `too_large`.

    The model must not let padding change what it gives, nor ask the device for a value: see `cwnet.train._engine`.

    Args:
        model: what to train; it is moved to the device.
        store: all complexes.
        objective: the loss.
        train: section ``[train]`` of the recipe.
        device: the GPU.
        optimiser: makes it of the parameters; Adam as the recipe says by default.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        store: ComplexStore,
        objective: Objective,
        train: TrainRecipe,
        device: torch.device | str = "cuda",
        optimiser: OptimiserMaker | None = None,
    ) -> None:
        device = torch.device("cuda", torch.cuda.current_device()) if str(device) == "cuda" else torch.device(device)
        self.device, self.objective, self.recipe = device, objective, train
        self.precision = Precision(train.precision, device)
        self.model = model.to(device, self.precision.wide)
        self.resident = Resident.of(store, device, _top(model, store))
        self.store = self.resident.store
        self._state = State(self.model, self._optimiser(optimiser), train.ema)
        self.too_large = 0
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._random = torch.Generator(device).manual_seed(torch.initial_seed() % 2**63)
        self._host_random = torch.get_rng_state()[None]  # a run that goes on without a GPU draws from this
        self._sizes: list[_Size] = []
        self._evaluations: dict[bytes, _Evaluation] = {}
        self._taken: list[int | None] = []  # the size that each step since the plan took
        self._losses_eager: list[Tensor] = []

    def _optimiser(self, make: OptimiserMaker | None) -> torch.optim.Optimizer:
        """An optimiser that a graph can record: what changes between steps lies on the device."""
        train = self.recipe
        if make is None:
            return GraphAdam(self.model.parameters(), train.lr, train.betas, weight_decay=train.weight_decay)
        made = make(self.model.parameters())
        for group in made.param_groups:
            group["lr"] = torch.tensor(float(group["lr"]), device=self.device)
            if "capturable" in group:
                group["capturable"] = True
        return made

    def describe(self) -> dict[str, Any]:
        return {"kind": "CUDA graphs", "sizes": len(self._sizes), "batches_too_large": self.too_large}

    # -------------------------------------------------------------------------------------------- training

    def train(self, batches: Sequence[Tensor], start: int = 0) -> Iterator[int]:
        with self._in_force():
            sizes = self._prepare(batches, start)
        for number, size in enumerate(sizes, start):
            if size is None:
                with self._in_force():
                    self._eager(batches[number])
            else:
                graph = self._sizes[size].graph
                assert graph is not None
                with torch.cuda.stream(self._stream):
                    graph.replay()
            self._taken.append(size)
            yield number + 1

    def _prepare(self, batches: Sequence[Tensor], start: int) -> list[int | None]:
        """Send the plan of an epoch to the device, and record steps that were not recorded yet. Gives their sizes."""
        self._taken, self._losses_eager = [], []
        todo = batches[start:]
        if not todo:
            return []
        if not self._sizes:
            assert self.recipe.batch_size is not None
            capacities = self.resident.usual(torch.cat(list(batches)), self.recipe.batch_size)
            made = [PaddedBatches(self.resident, self.recipe.batch_size, capacity) for capacity in capacities]
            self._sizes = [_Size(one) for one in made]
        sizes = self.resident.smallest(todo, [size.batches.capacity for size in self._sizes])
        for number, size in enumerate(self._sizes):
            if planned := [batch for batch, taken in zip(todo, sizes, strict=True) if taken == number]:
                size.plan(planned, len(batches))
                if size.graph is None:
                    size.graph = self._record(size)
        return sizes

    def _padded_step(self, batch: PaddedBatch, size: _Size) -> None:
        self.model.train()
        with self.precision.autocast():
            prediction = self.model(batch)
        size.losses.index_copy_(0, size.batches.now, self._descend(prediction, batch)[None])

    def _eager(self, index: Tensor) -> None:
        """The step of a batch that does not fit."""
        self.too_large += 1
        batch = gathered(self.store, index, self.device)
        self.model.train()
        with self.precision.autocast():
            prediction = self.model(batch)
        self._losses_eager.append(self._descend(prediction, batch))

    def _descend(self, prediction: Tensor, batch: Any) -> Tensor:
        """From a prediction to new weights. Gives the loss."""
        total, count = self.objective.of(prediction, batch)
        loss = total / count.clamp(min=1)
        self._state.optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        if self.recipe.clip is not None:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.clip)
        self._state.optimiser.step()
        self._state.average()
        return loss.detach()

    def losses(self) -> Tensor:
        self._stream.synchronize()
        read = [iter(size.losses.tolist()) for size in self._sizes]
        eager = iter([float(loss) for loss in self._losses_eager])
        found = [next(eager if size is None else read[size]) for size in self._taken]
        return torch.tensor(found, dtype=torch.float64)

    def set_lr(self, lr: float) -> None:
        with self._in_force():
            for group in self._state.optimiser.param_groups:
                group["lr"].fill_(lr)

    # -------------------------------------------------------------------------------------------- evaluation

    def predict(self, index: Tensor) -> Callable[[], Tensor]:
        if not len(index):
            return lambda: torch.zeros(0, 0)
        key = index.numpy().tobytes()
        with self._in_force():
            if key not in self._evaluations:
                self._evaluations[key] = _Evaluation(self, index)
            return self._evaluations[key]()

    # -------------------------------------------------------------------------------------------- recording

    def try_out(self, index: Tensor) -> None:
        """Record a step on a batch of these complexes and forget it: raises what can not be recorded."""
        with self._in_force():
            size = _Size(PaddedBatches(self.resident, len(index), self.resident.exact([index])))
            size.plan([index], 1)
            self._record(size)

    def _record(self, size: _Size) -> torch.cuda.CUDAGraph:
        """Record a step. It is tried out on the first batch, compiled before that; what changes is put back."""
        before = {name: tensor.clone() for name, tensor in self._state.tensors().items()}
        random = self._random.get_state()
        batch = size.batches.gather()
        with kernels.compile_only():
            self._padded_step(batch, size)
        self._padded_step(batch, size)
        for name, tensor in self._state.tensors().items():
            tensor.copy_(before[name]) if name in before else tensor.zero_()
        self._random.set_state(random)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self._stream):
            self._padded_step(size.batches.gather(), size)
        if isinstance(self._state.optimiser, GraphAdam):
            self._state.optimiser.recorded()
        size.batches.step.zero_()
        return graph

    @contextmanager
    def _in_force(self) -> Iterator[None]:
        """On the run's own stream, with its own random numbers and in the precision of the recipe."""
        default = torch.cuda.default_generators[self.device.index]
        before = default.graphsafe_get_state()
        default.graphsafe_set_state(self._random)
        try:
            with torch.cuda.stream(self._stream), self.precision.in_force():
                yield
        finally:
            default.graphsafe_set_state(before)

    # -------------------------------------------------------------------------------------------- state

    def state(self) -> dict[str, Tensor]:
        random = {"rng.cpu": self._host_random, "rng.cuda": self._random.get_state()[None]}
        return self._on_the_host(self._state.tensors())() | random

    def load_state(self, state: dict[str, Tensor]) -> None:
        with self._in_force():
            self._state.load(state)
            self._host_random = state["rng.cpu"]
            if "rng.cuda" in state:  # a run that was on a CPU until now has none
                self._random.set_state(state["rng.cuda"][0].contiguous())
        for size in self._sizes:
            size.graph = None  # the optimiser's memory is another now

    def idle(self) -> bool:
        if self._stream.query():
            return True
        time.sleep(_MOMENT)
        return False

    def evaluated(self) -> Callable[[], dict[str, Tensor]]:
        return self._on_the_host(self._state.evaluated())

    def _on_the_host(self, tensors: dict[str, Tensor]) -> Callable[[], dict[str, Tensor]]:
        """Copies of tensors in float32: one transfer instead of one for each."""
        with torch.cuda.stream(self._stream):
            there = _fetched(torch.cat([tensor.detach().flatten() for tensor in tensors.values()]))

        def wait() -> dict[str, Tensor]:
            parts = torch.split(there(), [tensor.numel() for tensor in tensors.values()])
            found = zip(tensors.items(), parts, strict=True)
            return {name: part.view(tensor.shape).clone() for (name, tensor), part in found}

        return wait


def _top(model: torch.nn.Module, store: ComplexStore) -> int:
    """The largest dimension of cells the device needs: none of rings where none are encoded, but edges in any case."""
    encoder = getattr(model, "encoder", None)
    encoded = len(encoder.encoders) if isinstance(encoder, CellEncoder) else len(store.cell_ptr)
    return min(max(encoded, 2), len(store.cell_ptr)) - 1


def _fetched(values: Tensor) -> Callable[[], Tensor]:
    """Enqueue the way to the host; calling the result waits for the end of it."""
    there = torch.empty(values.shape, pin_memory=True)
    there.copy_(values, non_blocking=True)
    done = torch.cuda.Event()  # type: ignore[no-untyped-call]
    done.record()

    def wait() -> Tensor:
        done.synchronize()
        return there

    return wait


class _Evaluation:
    """The predictions for some complexes, as a graph."""

    def __init__(self, steps: GraphSteps, index: Tensor) -> None:
        self.steps = steps
        batches = list(torch.split(index, _EVAL_BATCH))
        self.batches = PaddedBatches(steps.resident, len(batches[0]), steps.resident.exact(batches))
        self.batches.plan(batches)
        self.count = len(batches)
        first = self.batches.gather()
        with kernels.compile_only():
            self._forward(first)
        out = self._forward(first)
        self.out = out.new_zeros(self.count, *out.shape)
        rows = [int(steps.objective.rows(steps.store, batch).sum()) for batch in batches]
        real = [i * len(out) + torch.arange(n) for i, n in enumerate(rows)]  # the rest is padding
        self.rows = torch.cat(real).to(steps.device)
        self.batches.step.zero_()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, stream=steps._stream):
            self.out.index_copy_(0, self.batches.now, self._forward(self.batches.gather())[None])

    @torch.no_grad()
    def _forward(self, batch: PaddedBatch) -> Tensor:
        with self.steps.precision.autocast():
            return self.steps._state.evaluate(batch).float()

    def __call__(self) -> Callable[[], Tensor]:
        self.batches.step.zero_()
        for _ in range(self.count):
            self.graph.replay()
        return _fetched(self.out.flatten(0, 1)[self.rows])
