"""Train all runs of a recipe: one after another on a CPU, side by side on a GPU."""

from __future__ import annotations

import ctypes
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

import torch

from cwnet.data import Dataset
from cwnet.train import _checkpoint, _report
from cwnet.train import _distributed as processes
from cwnet.train._build import resolve
from cwnet.train._data import folds, load_data
from cwnet.train._display import Display
from cwnet.train._engine import best_steps
from cwnet.train._errors import CheckpointError, Interrupted, TrainingError
from cwnet.train._objectives import Loss, Metric
from cwnet.train._own import Own
from cwnet.train._recipe import DataRecipe, Recipe
from cwnet.train._run import Progress, Run, RunResult
from cwnet.train._state import OptimiserMaker

__all__ = ["fit", "fit_many"]

#: Names of glibc's malloc.h.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def fit(
    recipe: Recipe,
    *,
    dataset: Dataset | None = None,
    out: str | Path | None = None,
    device: str | None = None,
    resume: bool = False,
    seeds: Iterable[int] | None = None,
    side_by_side: int | None = None,
    progress: bool = True,
    tensorboard: bool = False,
    model: Callable[[Dataset], torch.nn.Module] | None = None,
    optimiser: OptimiserMaker | None = None,
    loss: Loss | None = None,
    metric: Metric | None = None,
) -> list[RunResult]:
    """Train a recipe, once for every seed and fold it names.

    Args:
        recipe: what to do; see `load_recipe`.
        dataset: what to do it on; by default what the recipe names.
        out: folder for checkpoints, curves and figures. Several runs get a folder each in it. None to write nothing.
        device: "cpu", "cuda", or by default a GPU if there is one.
        resume: whether to go on with what is in `out`.
        seeds: instead of those of the recipe.
        side_by_side: runs at once; all on a GPU and one on a CPU by default. Results do not depend on it.
        progress: whether to show how far it is.
        tensorboard: whether to write curves for TensorBoard too, into the folders of the runs.
        model: makes a model of your own from the dataset, for every run with fresh weights, and once to write down what
            it is made of; the section ``[model]`` of the recipe is left aside. It takes a batch and gives [complexes,
            outputs]. On a GPU it is trained like any other if padding does not change what it gives, which is tried
            out; else one operation at a time, and a line says why.
        optimiser: makes one of your own from the parameters, as in ``lambda p: torch.optim.SGD(p, 0.1)``; schedules set
            its learning rate.
        loss: your own: from predictions and targets to a value for every row or entry. Where a target is missing its
            value is left out.
        metric: your own, see `Metric`.

    Returns:
        A result for every run, in the order of folds and seeds.

    Raises:
        RecipeError, CheckpointError, TrainingError: each says what to change. If one of several runs fails, the others
            are finished first.

    >>> from cwnet.train import Recipe, fit
    >>> recipe = Recipe.from_dict({
    ...     "data": {"name": "ring-transfer", "options": {"k": 6, "num_train": 50, "num_val": 10, "num_test": 10}},
    ...     "model": {"width": 8, "vertices": "linear"},
    ...     "train": {"epochs": 2},
    ... })
    >>> [result] = fit(recipe, progress=False, device="cpu")
    >>> result.metric, result.epochs
    ('accuracy', 2)
    """
    if seeds is not None:
        recipe = recipe.with_seeds(seeds)
    found = _fit(
        {None: recipe}, None if dataset is None else {None: dataset}, out, device, resume, side_by_side, progress,
        tensorboard, own=Own(model, optimiser, loss, metric),
    )  # fmt: skip
    return found[None]


def fit_many(
    recipes: Mapping[str, Recipe],
    *,
    out: str | Path | None = None,
    device: str | None = None,
    resume: bool = False,
    side_by_side: int | None = None,
    progress: bool = True,
    plots: bool = True,
    wanted: Callable[[str, int, int], bool] | None = None,
    on_end: Callable[[str, RunResult], None] | None = None,
) -> dict[str, list[RunResult]]:
    """Train several recipes as `fit` trains one, all runs of all of them side by side; the same data is loaded once.

    Args:
        recipes: by name.
        out: as in `fit`, with a folder for every name.
        device: as in `fit`.
        resume: as in `fit`.
        side_by_side: as in `fit`, over all recipes.
        progress: as in `fit`.
        plots: whether to draw curves; for very many runs this takes longer than one would wait for.
        wanted: says of a recipe's name, a fold and a seed whether to train it; all by default.
        on_end: called with a recipe's name and a result when a run ends, so that it can be kept at once.

    Returns:
        The results of each recipe.
    """
    return _fit(
        recipes, None, out, device, resume, side_by_side, progress, plots=plots, wanted=wanted, on_end=on_end
    )  # fmt: skip


def _fit(
    recipes: Mapping[Any, Recipe],
    datasets: Mapping[Any, Dataset] | None,
    out: str | Path | None,
    device: str | None,
    resume: bool,
    side_by_side: int | None,
    progress: bool,
    tensorboard: bool = False,
    plots: bool = True,
    wanted: Callable[[Any, int, int], bool] | None = None,
    on_end: Callable[[Any, RunResult], None] | None = None,
    own: Own | None = None,
) -> dict[Any, list[RunResult]]:
    """`fit` and `fit_many`. A recipe whose name is None has `out` to itself."""
    with processes.joined(device) as place, processes.peers_watched():
        datasets = datasets or _load_all(recipes)
        folder = None if out is None else Path(out)
        plans: list[_Plan] = []
        for name, recipe in recipes.items():
            resolved = resolve(recipe, datasets[name])
            resolved = resolved if own is None else own.told(resolved, datasets[name])
            plans += _plans(name, resolved, datasets[name], folder if folder is None or name is None else folder / name)
        plans = [plan for plan in plans if wanted is None or wanted(*plan.key)]
        _prepare(plans, resume)
        on_device = {id(data): data for data in datasets.values()}
        if place.type == "cuda":
            on_device = {key: replace(data, store=data.store.to(place)) for key, data in on_device.items()}
        else:
            _keep_memory()
        many = side_by_side or (max(len(plans), 1) if place.type == "cuda" and not processes.together() else 1)
        if many < 1:
            raise TrainingError(f"side_by_side={many}: it must be at least 1")
        pool = _Pool(plans, lambda plan: plan.start(on_device[id(plan.dataset)], place, resume, own), many)
        display = Display(len(plans), progress and processes.is_writer())
        board = _report.Board(tensorboard and processes.is_writer())
        with _signals() as asked, display:
            for plan, run in pool.steps():
                display.update(run.progress)
                display.tell_once(run.steps.describe().get("why"))
                board.update(run)
                _stop_if_asked(asked, pool, folder)
                if run.stopped is not None and processes.is_writer():
                    if run.out is not None:
                        _report.write_run(run, pool.results[plan.key], plots)
                    if on_end is not None:
                        on_end(plan.recipe_name, pool.results[plan.key])
        pool.check()
        results = {name: [pool.results[p.key] for p in plans if p.recipe_name == name] for name in recipes}
        for name in recipes:
            home = next((plan.home for plan in plans if plan.recipe_name == name), None)
            if home is not None and len(results[name]) > 1 and processes.is_writer():
                _report.write_summary(home, recipes[name], results[name])
        return results


def _load_all(recipes: Mapping[Any, Recipe]) -> dict[Any, Dataset]:
    """The data of every recipe; the same object where it is the same data."""
    known: dict[str, Dataset] = {}
    for recipe in recipes.values():
        key = repr(_what(recipe))
        if key not in known:
            known[key] = _load_once(recipe)
    return {name: known[repr(_what(recipe))] for name, recipe in recipes.items()}


def _what(recipe: Recipe) -> DataRecipe:
    """What is to be loaded, whatever is done with its folds."""
    return replace(recipe.data, fold="all", val="own")


def _load_once(recipe: Recipe) -> Dataset:
    """The data; where there are several processes, prepared by one and then read by the others."""
    if processes.is_writer():
        dataset = load_data(recipe.data, recipe.folder)
    processes.any_of(0, _here())
    return dataset if processes.is_writer() else load_data(recipe.data, recipe.folder)


def _here() -> torch.device:
    """Where collectives run."""
    backend = torch.distributed.get_backend() if processes.together() else "gloo"
    return torch.device("cuda", torch.cuda.current_device()) if backend == "nccl" else torch.device("cpu")


def _keep_memory() -> None:
    """Ask the C library to keep what is freed: giving it back and getting it anew takes some 4 % of a step on a CPU."""
    with suppress(OSError, AttributeError):  # other C libraries have no such call
        library = ctypes.CDLL(None)
        for parameter in (_M_MMAP_THRESHOLD, _M_TRIM_THRESHOLD):
            library.mallopt(parameter, 2**30)


# ------------------------------------------------------------------------------------------------ plans


@dataclass(frozen=True)
class _Plan:
    """A run that is to be."""

    recipe_name: Any
    recipe: Recipe
    dataset: Dataset
    seed: int
    fold: int
    name: str
    home: Path | None
    out: Path | None

    @property
    def key(self) -> tuple[Any, int, int]:
        return self.recipe_name, self.fold, self.seed

    def start(self, dataset: Dataset, device: torch.device, resume: bool, own: Own | None) -> Run:
        run = Run(
            self.recipe, dataset, seed=self.seed, fold=self.fold, out=self.out, device=device, steps=best_steps,
            name=self.name, own=own,
        )  # fmt: skip
        if resume:
            run.restore()
        return run


def _plans(recipe_name: Any, recipe: Recipe, dataset: Dataset, home: Path | None) -> list[_Plan]:
    pairs = [(fold, seed) for fold in folds(recipe.data, dataset) for seed in recipe.train.seeds]
    several = len(folds(recipe.data, dataset)) > 1
    plans = []
    for fold, seed in pairs:
        name = f"fold {fold} seed {seed}" if several else f"seed {seed}"
        place = home if home is None or len(pairs) == 1 else home / name.replace(" ", "-")
        shown = name if recipe_name is None else f"{recipe_name}, {name}"
        plans.append(_Plan(recipe_name, recipe, dataset, seed, fold, shown, home, place))
    return plans


def _prepare(plans: list[_Plan], resume: bool) -> None:
    """Make the folders. What another run left there is not written over."""
    if not processes.is_writer():
        return
    for folder in dict.fromkeys(f for plan in plans for f in (plan.home, plan.out) if f is not None):
        if not resume and ((folder / "recipe.toml").exists() or _checkpoint.newest(folder)):
            raise CheckpointError(f"{folder} holds a run already: go on with it by --resume, or choose another --out")
        folder.mkdir(parents=True, exist_ok=True)
    for plan in plans:
        if plan.home is not None and not (plan.home / "recipe.toml").exists():
            _report.write_recipe(plan.home, plan.recipe)


# ------------------------------------------------------------------------------------------------ side by side


class _Pool:
    """Some runs at once, each taking a step in turn. A run that has ended makes way for the next.

    The first runs start one after another, spread over an epoch: what the host does between two epochs of one run then
    falls into the epochs of the others, and the GPU always has something to do.

    Attributes:
        active: the runs that are on, and their steps.
        results: of the runs that have ended, by recipe, fold and seed.
        failed: what went wrong with the others, by name.
    """

    def __init__(self, plans: list[_Plan], start: Callable[[_Plan], Run], many: int) -> None:
        self.waiting, self._start, self.many = list(plans), start, many
        self.active: list[tuple[_Plan, Run, Iterator[Progress]]] = []
        self.results: dict[tuple[Any, int, int], RunResult] = {}
        self.failed: dict[str, TrainingError] = {}

    def check(self) -> None:
        """Tell of the runs that failed, once the others are done."""
        if self.failed:
            name, error = next(iter(self.failed.items()))
            if len(self.failed) + len(self.results) == 1:
                raise error
            raise TrainingError(f"{len(self.failed)} run(s) failed, {len(self.results)} did not. {name}: {error}")

    def steps(self) -> Iterator[tuple[_Plan, Run]]:
        """Yields the run that has just taken a step; one that has ended is yielded a last time."""
        while self.waiting or self.active:
            while self.waiting and len(self.active) < self.many and self._due():
                plan = self.waiting.pop(0)
                run = self._start(plan)
                self.active.append((plan, run, run.epochs()))
            for entry in list(self.active):
                plan, run, progress = entry
                try:
                    going = next(progress, None) is not None
                except TrainingError as error:
                    if processes.together():  # who may not all have failed
                        raise
                    self.active.remove(entry)
                    # What it holds on to is let go, so that the others have the memory.
                    self.failed[plan.name] = error.with_traceback(None)
                    continue
                if not going:
                    self.active.remove(entry)
                    self.results[plan.key] = run.result()
                if not going or run.stopped is None:
                    yield plan, run

    def _due(self) -> bool:
        """Whether the run that was started last has gone far enough for the next to start."""
        if not self.active:
            return True
        last = self.active[-1][1].progress
        return last.epoch > 0 or last.batch * self.many > last.batches > 0


#: Seconds within which a second signal is the first one, sent twice.
_AT_ONCE = 1.0


@dataclass
class _Asked:
    """The signal that asked to stop, or 0, and when it came."""

    number: int = 0
    when: float = 0.0


@contextmanager
def _signals() -> Iterator[_Asked]:
    """Note SIGTERM and SIGINT and go on, so that the step at hand can be finished. A second one is not waited for.

    Some senders, such as ``timeout``, send the same signal twice at once: to the process and to its group.
    """
    asked = _Asked()
    if threading.current_thread() is not threading.main_thread():
        yield asked
        return

    def note(number: int, frame: FrameType | None) -> None:
        if not asked.number:
            asked.number, asked.when = number, time.monotonic()
        elif time.monotonic() - asked.when > _AT_ONCE:
            raise KeyboardInterrupt

    before = {number: signal.signal(number, note) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield asked
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stop_if_asked(asked: _Asked, pool: _Pool, out: Path | None) -> None:
    number = processes.any_of(asked.number, _here())
    if not number:
        return
    for _, run, _ in pool.active:
        run.save()
    done = "nothing was kept, since there is no --out" if out is None else f"the state is in {out}: go on with --resume"
    raise Interrupted(f"stopped by {signal.Signals(number).name}; {done}", number)
