"""The steps of training and evaluation: what an engine must do, and the plain way of doing it."""

from __future__ import annotations

import copy
import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from cwnet._core import keep_freed_memory
from cwnet._torch import fused_adam
from cwnet.complexes import ComplexBatch, ComplexStore
from cwnet.nn import MLP, BatchNorm
from cwnet.nn.kernels import torch_on_one_thread
from cwnet.train import _distributed as processes
from cwnet.train._errors import BadLoss
from cwnet.train._objectives import Objective
from cwnet.train._recipe import TrainRecipe
from cwnet.train._state import OptimiserMaker, Precision, State, below, gathered

__all__ = ["EagerSteps", "Steps", "find_guilty"]

#: Complexes per batch of evaluation, where the recipe counts cells.
_EVAL_BATCH = 128


class Steps(Protocol):
    """Enqueues steps of training and of evaluation on a device, and gives results when they are asked for.

    Attributes:
        model: the module that is trained.
    """

    model: torch.nn.Module

    def describe(self) -> dict[str, Any]:
        """What a reader of the figures should know of the engine, as plain data."""
        ...

    def train(self, batches: Sequence[Tensor], start: int = 0) -> Iterator[int]:
        """Train on ``batches[start:]``, each the numbers of complexes in the store (int64, on the CPU).

        Yields the number of batches done, `start` counted, after each one is enqueued.
        """
        ...

    def losses(self) -> Tensor:
        """The mean loss of every batch since `train` was called, [batches], on the CPU. Waits for the device."""
        ...

    def set_lr(self, lr: float) -> None:
        """The learning rate of the steps to come."""
        ...

    def predict(self, index: Tensor) -> Callable[[], Tensor]:
        """Enqueue the evaluation of these complexes, with the averaged weights if there are any.

        Calling the result waits, and gives the predictions on the CPU in order: [complexes, outputs], or
        [cells, outputs] where cells have the targets.
        """
        ...

    def idle(self) -> bool:
        """Whether the device has done all that was enqueued here. If not, this takes a moment, and asking is cheap."""
        ...

    def evaluated(self) -> Callable[[], dict[str, Tensor]]:
        """Enqueue a copy of the weights that `predict` uses.

        Calling the result waits, and gives them as a state dict of the model.
        """
        ...

    def state(self) -> dict[str, Tensor]:
        """All that changes, on the CPU, under names that start with "model.", "optimiser.", "ema." or "rng."."""
        ...

    def load_state(self, state: dict[str, Tensor]) -> None:
        """Go on from there."""
        ...


class EagerSteps:
    """Steps one operation at a time, on batches as they are, on any device and with any number of processes.

    Each has a random state of its own, so that runs side by side draw what they would draw alone. It starts as the
    state of the process when the object is made.

    Args:
        model: what to train; it is moved to the device.
        store: all complexes.
        objective: the loss.
        train: section ``[train]`` of the recipe.
        device: where to compute.
        optimiser: makes it of the parameters; Adam as the recipe says by default.
        why: not a faster engine, for `describe`.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        store: ComplexStore,
        objective: Objective,
        train: TrainRecipe,
        device: torch.device | str = "cpu",
        optimiser: OptimiserMaker | None = None,
        why: str | None = None,
    ) -> None:
        self.device = torch.device(device)
        self.objective, self.recipe, self.why = objective, train, why
        self.precision = Precision(train.precision, self.device)
        wide = self.precision.wide
        self.model = model.to(self.device, wide)
        self.store = _with_features(store if self.device == store.dims.device else store.to(self.device), wide)
        self._state = State(self.model, (optimiser or self._adam)(self.model.parameters()), train.ema)
        self._parallel: torch.nn.Module = self.model
        if processes.together():
            self._parallel = _parallel(self.model)
        self._rng = _Random(self.device)
        if self.device.type == "cpu":
            keep_freed_memory()
        self._threads = torch_on_one_thread if _mostly_perceptrons(self.model, self.device) else nullcontext
        self._losses: list[Tensor] = []

    def _adam(self, parameters: Iterable[Tensor]) -> torch.optim.Optimizer:
        train = self.recipe
        fused = fused_adam(self.device.type)
        return torch.optim.Adam(parameters, train.lr, train.betas, weight_decay=train.weight_decay, fused=fused)

    def describe(self) -> dict[str, Any]:
        return {"kind": "eager"} if self.why is None else {"kind": "eager", "why": self.why}

    # -------------------------------------------------------------------------------------------- training

    def train(self, batches: Sequence[Tensor], start: int = 0) -> Iterator[int]:
        self._losses = []
        for done in range(start, len(batches)):
            with self._rng.in_force(), self.precision.in_force(), self._threads():
                # Gathering takes a hundredth of a step: a thread that does it ahead costs more than it brings.
                batch = gathered(self.store, batches[done], self.device)
                loss = self._step(batch, done, batches[done])
            self._losses.append(loss)
            yield done + 1

    def _step(self, batch: ComplexBatch, number: int, index: Tensor) -> Tensor:
        if not self.model.training:  # to say it to all modules takes as long as a tenth of a small step
            self.model.train()
        with self.precision.autocast():
            prediction = self._parallel(batch)
        total, count = self.objective.of(prediction, batch)
        # Over several processes a gradient is the mean of theirs. It must be that of the whole batch, whoever has how
        # many of its targets.
        whole = processes.summed(torch.stack([total.detach(), count]))
        mean = whole[0] / whole[1].clamp(min=1)
        if not mean.is_cuda and not math.isfinite(value := float(mean)):
            raise BadLoss(number, value, index.tolist(), find_guilty(self.model, self.store, self.objective, index))
        (total * (processes.world_size() / whole[1].clamp(min=1))).backward()  # type: ignore[no-untyped-call]
        if self.recipe.clip is not None:
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.clip)
        self._state.optimiser.step()
        self._state.optimiser.zero_grad()
        self._state.average()
        return mean

    def losses(self) -> Tensor:
        return torch.stack(self._losses).double().cpu() if self._losses else torch.zeros(0, dtype=torch.float64)

    def set_lr(self, lr: float) -> None:
        for group in self._state.optimiser.param_groups:
            group["lr"] = lr

    # -------------------------------------------------------------------------------------------- evaluation

    def predict(self, index: Tensor) -> Callable[[], Tensor]:
        rows = self.objective.rows(self.store, index)
        mine = torch.arange(len(index))[processes.rank() :: processes.world_size()]
        here = self._predict(index[mine])
        if not processes.together():
            return here.cpu
        return lambda: self._shared(here, rows, mine).cpu()

    @torch.no_grad()
    def _predict(self, index: Tensor) -> Tensor:
        size, wide = self.recipe.batch_size or _EVAL_BATCH, self.precision.wide
        with self.precision.in_force(), self.precision.autocast(), self._threads():
            batches = (gathered(self.store, part, self.device) for part in torch.split(index, size))
            out = [self._state.evaluate(batch) for batch in batches]
        return torch.cat(out).to(wide) if out else torch.zeros(0, 0, dtype=wide, device=self.device)

    def _shared(self, here: Tensor, rows: Tensor, mine: Tensor) -> Tensor:
        """The predictions of all processes, in order. Each fills its rows of a table, and the tables are added up."""
        ends = rows.cumsum(0)
        at = [torch.arange(int(ends[i] - rows[i]), int(ends[i])) for i in mine]
        outputs = processes.any_of(here.shape[1], self.device)
        table = torch.zeros(int(rows.sum()), outputs, dtype=here.dtype, device=self.device)
        if at:
            table[torch.cat(at).to(self.device)] = here
        return processes.summed(table)

    def idle(self) -> bool:
        return True  # what it gives waits for the device anyway

    def evaluated(self) -> Callable[[], dict[str, Tensor]]:
        copied = {name: tensor.detach().clone() for name, tensor in self._state.evaluated().items()}
        return lambda: copied

    # -------------------------------------------------------------------------------------------- state

    def state(self) -> dict[str, Tensor]:
        found = self._state.tensors()
        return {name: tensor.detach().cpu().clone() for name, tensor in found.items()} | self._rng.state()

    def load_state(self, state: dict[str, Tensor]) -> None:
        self._state.load(state)
        self._rng.load_state(below("rng.", state))


def _mostly_perceptrons(model: torch.nn.Module, device: torch.device) -> bool:
    """Whether most weights are in perceptrons on a CPU, for which there are kernels with threads of their own."""
    inside = {p for part in model.modules() if isinstance(part, MLP) for p in part.parameters()}
    most = sum(p.numel() for p in inside) > sum(p.numel() for p in model.parameters()) / 2
    return device.type == "cpu" and most


def _parallel(model: torch.nn.Module) -> DistributedDataParallel:
    """The model as one of several processes, which add up their gradients."""
    parameters = inspect.signature(DistributedDataParallel).parameters
    # Running averages are the same everywhere already. The argument that says so has changed its name.
    buffers = "forward_sync_buffers" if "forward_sync_buffers" in parameters else "broadcast_buffers"
    # Under a batch norm the bias before it gets no gradient: see `cwnet.nn.BatchNorm`.
    return DistributedDataParallel(model, find_unused_parameters=True, **{buffers: False})  # type: ignore[arg-type]


class _Random:
    """A random state that is in force for a while, and then makes way for the one before it."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._cpu = torch.get_rng_state()
        self._cuda = torch.cuda.get_rng_state(device) if device.type == "cuda" else None

    @contextmanager
    def in_force(self) -> Iterator[None]:
        with torch.random.fork_rng([self.device] if self._cuda is not None else []):
            torch.set_rng_state(self._cpu)
            if self._cuda is not None:
                torch.cuda.set_rng_state(self._cuda, self.device)
            yield
            self._cpu = torch.get_rng_state()
            if self._cuda is not None:
                self._cuda = torch.cuda.get_rng_state(self.device)

    def state(self) -> dict[str, Tensor]:
        """The states of all processes."""
        found = {"rng.cpu": processes.gathered(self._cpu.to(self.device)).cpu()}
        if self._cuda is not None:
            found["rng.cuda"] = processes.gathered(self._cuda.to(self.device)).cpu()
        return found

    def load_state(self, state: dict[str, Tensor]) -> None:
        def mine(rows: Tensor) -> Tensor:
            return rows[processes.rank() % len(rows)].clone()

        self._cpu = mine(state["cpu"])
        if self._cuda is not None and "cuda" in state:
            self._cuda = mine(state["cuda"])


def _with_features(store: ComplexStore, dtype: torch.dtype) -> ComplexStore:
    """The store with the real features of cells in the precision of the model."""
    wrong = [x is not None and x.is_floating_point() and x.dtype != dtype for x in store.x]
    if not any(wrong):
        return store
    return replace(
        store, x=tuple(x.to(dtype) if w and x is not None else x for x, w in zip(store.x, wrong, strict=True))
    )


@torch.no_grad()
def find_guilty(model: torch.nn.Module, store: ComplexStore, objective: Objective, index: Tensor) -> list[int]:
    """The complexes that alone give a loss that is no number; none where all of them do, which says nothing."""
    alone = copy.deepcopy(model).eval()
    for part in alone.modules():  # what the bad batch has left in running averages is not the fault of the others
        if isinstance(part, BatchNorm) and not bool(torch.isfinite(part.running_mean + part.running_var).all()):
            part.running_mean.zero_()
            part.running_var.fill_(1)
    guilty = []
    for number in index.tolist():
        batch = store.batch([number])
        total, _ = objective.of(alone(batch), batch)
        if not bool(torch.isfinite(total)):
            guilty.append(number)
    return guilty if len(guilty) < len(index) or len(index) == 1 else []
