"""Training on a GPU: the whole step, from the numbers of complexes to new weights, is one CUDA graph."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from cwnet.complexes import ComplexStore
from cwnet.data import Dataset, ShardedStore
from cwnet.nn import CellEncoder, kernels
from cwnet.train._adam import GraphAdam
from cwnet.train._objectives import Objective
from cwnet.train._padded import PaddedBatch, PaddedBatches, Resident
from cwnet.train._recipe import Recipe, TrainRecipe
from cwnet.train._steps import EagerSteps

__all__ = ["GraphSteps", "can_graph"]

#: Complexes per batch of evaluation: running averages are used there, so any number gives the same.
_EVAL_BATCH = 1024
#: Seconds to sleep when the device is not done yet.
_MOMENT = 5e-5


def can_graph(recipe: Recipe, dataset: Dataset) -> bool:
    """Whether a recipe can be trained in graphs: the data on the GPU, in batches of a fixed number of complexes."""
    there = kernels.usable(torch.zeros(1, device="cuda")) and recipe.train.precision != "float64"
    return there and recipe.train.batch_size is not None and not isinstance(dataset.store, ShardedStore)


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


class GraphSteps(EagerSteps):
    """Steps on padded batches, recorded once and replayed. Runs side by side have a stream and graphs each.

    The store lies on the GPU, and a batch is gathered there; between two epochs the host says nothing but which
    complexes come in which step. There is a graph for each of a few sizes of batches, and a batch takes the smallest it
    fits in. One too large for all of them takes the eager step, and is counted in `too_large`.

    Args:
        model: what to train; it is moved to the device.
        store: all complexes.
        objective: the loss.
        train: section ``[train]`` of the recipe.
        device: the GPU.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        store: ComplexStore,
        objective: Objective,
        train: TrainRecipe,
        device: torch.device | str = "cuda",
    ) -> None:
        device = torch.device("cuda", torch.cuda.current_device()) if str(device) == "cuda" else torch.device(device)
        # A model without rings needs none on the device; one of vertices alone needs the edges between them.
        encoded = len(model.encoder.encoders) if isinstance(model.encoder, CellEncoder) else len(store.cell_ptr)
        self.resident = Resident.of(store, device, min(max(encoded, 2), len(store.cell_ptr)) - 1)
        super().__init__(model, self.resident.store, objective, train, device)
        self.optimiser: GraphAdam = GraphAdam(
            self.model.parameters(), train.lr, train.betas, weight_decay=train.weight_decay
        )
        self.too_large = 0
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._random = torch.Generator(device).manual_seed(torch.initial_seed() % 2**63)
        self._sizes: list[_Size] = []
        self._evaluations: dict[bytes, _Evaluation] = {}
        self._taken: list[int | None] = []  # the size that each step since the plan took
        self._losses_eager: list[Tensor] = []

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
        with self._autocast():
            prediction = self.model(batch)
        size.losses.index_copy_(0, size.batches.now, self._descend(prediction, batch)[None])

    def _eager(self, index: Tensor) -> None:
        """The step of a batch that does not fit."""
        self.too_large += 1
        batch = self._gather(index)
        self.model.train()
        with self._autocast():
            prediction = self.model(batch)
        self._losses_eager.append(self._descend(prediction, batch))

    def _descend(self, prediction: Tensor, batch: Any) -> Tensor:
        """From a prediction to new weights. Gives the loss."""
        total, count = self.objective.terms(prediction, self.objective.target(batch))
        loss = total / count.clamp(min=1)
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        if self.recipe.clip is not None:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.clip)
        self.optimiser.step()
        self._average()
        return loss.detach()

    def losses(self) -> Tensor:
        self._stream.synchronize()
        read = [iter(size.losses.tolist()) for size in self._sizes]
        eager = iter([float(loss) for loss in self._losses_eager])
        found = [next(eager if size is None else read[size]) for size in self._taken]
        return torch.tensor(found, dtype=torch.float64)

    def set_lr(self, lr: float) -> None:
        with self._in_force():
            for group in self.optimiser.param_groups:
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

    def _record(self, size: _Size) -> torch.cuda.CUDAGraph:
        """Record a step. It is tried out on the first batch, compiled before that; what changes is put back."""
        before = {name: tensor.clone() for name, tensor in self._changing().items()}
        random = self._random.get_state()
        batch = size.batches.gather()
        with kernels.compile_only():
            self._padded_step(batch, size)
        self._padded_step(batch, size)
        for name, tensor in self._changing().items():
            tensor.copy_(before[name]) if name in before else tensor.zero_()
        self._random.set_state(random)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=self._stream):
            self._padded_step(size.batches.gather(), size)
        self.optimiser.recorded()
        size.batches.step.zero_()
        return graph

    def _changing(self) -> dict[str, Tensor]:
        """All that a step changes, as it lies on the device."""
        found = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        for name, parameter in self.model.named_parameters():
            for key, value in self.optimiser.state.get(parameter, {}).items():
                found[f"optimiser.{name}.{key}"] = value
        return found | {f"ema.{name}": tensor for name, tensor in (self._ema or {}).items()}

    @contextmanager
    def _in_force(self) -> Iterator[None]:
        """On the run's own stream, with its own random numbers and in the precision of the recipe."""
        default = torch.cuda.default_generators[self.device.index]
        before = default.graphsafe_get_state()
        default.graphsafe_set_state(self._random)
        try:
            with torch.cuda.stream(self._stream), self._precision():
                yield
        finally:
            default.graphsafe_set_state(before)

    # -------------------------------------------------------------------------------------------- state

    def state(self) -> dict[str, Tensor]:
        return self._on_the_host(self._changing())() | self._rng.state() | {"rng.cuda": self._random.get_state()[None]}

    def load_state(self, state: dict[str, Tensor]) -> None:
        with self._in_force():
            super().load_state(state)
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
        return self._on_the_host(self.model.state_dict() if self._ema is None else self._ema)

    def _on_the_host(self, tensors: dict[str, Tensor]) -> Callable[[], dict[str, Tensor]]:
        """Copies of tensors in float32: one transfer instead of one for each."""
        with torch.cuda.stream(self._stream):
            there = _fetched(torch.cat([tensor.detach().flatten() for tensor in tensors.values()]))

        def wait() -> dict[str, Tensor]:
            parts = torch.split(there(), [tensor.numel() for tensor in tensors.values()])
            found = zip(tensors.items(), parts, strict=True)
            return {name: part.view(tensor.shape).clone() for (name, tensor), part in found}

        return wait


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
        steps = self.steps
        steps.model.eval()
        weights = steps._ema if steps._ema is not None else {}
        with steps._autocast():
            out: Tensor = torch.func.functional_call(steps.model, weights, (batch,)).float()
        return out

    def __call__(self) -> Callable[[], Tensor]:
        self.batches.step.zero_()
        for _ in range(self.count):
            self.graph.replay()
        return _fetched(self.out.flatten(0, 1)[self.rows])
