"""Search the settings of a table's model by successive halving on the validation part.

Many candidates are trained with few epochs; the better third goes on with three times as many, and so on. A candidate
that goes on is trained again from the start: its learning rate follows a cosine over all epochs, so the first epochs
of a long training are not those of a short one. See Jamieson and Talwalkar (2016), whose algorithm this is but for the
default settings, which take part in every round.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import random
import shlex
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from cwnet.chem import Featuriser
from cwnet.data import MoleculeTable, Split
from cwnet.data._files import write_whole
from cwnet.errors import CwnetError
from cwnet.molecules._data import Prepared
from cwnet.molecules._defaults import ENSEMBLE, NETWORK, TreePlan
from cwnet.molecules._journal import Journal, Trial
from cwnet.molecules._model import MoleculeModel
from cwnet.molecules._rows import rows_of
from cwnet.molecules._settings_file import settings_to_toml
from cwnet.molecules._targets import Targets
from cwnet.molecules._train import Settings, default_recipe, learn, prepare_for
from cwnet.scale import Pool, open_pool
from cwnet.train._errors import TrainingError

__all__ = ["Knob", "Tuned", "draw", "tune_table", "without_test"]

#: The part of the candidates that goes on, and the rounds at the most.
_PART, _ROUNDS = 3, 3
#: How likely a candidate is to leave the default of a setting. The defaults are good: most settings keep theirs.
_CHANGED = 0.4
#: Trials of a round whatever the time: the default and the best so far.
_LEAST = 2
#: Draws for each candidate before it is believed that there are no others.
_DRAWS = 100


@dataclass(frozen=True)
class Knob:
    """A setting that is searched.

    Attributes:
        name: of it.
        key: of the recipe or the trees, as in "model.width"; or a field of `Settings`.
        values: that are tried, the default first.
    """

    name: str
    key: str
    values: tuple[Any, ...]


def all_knobs(targets: Targets) -> list[Knob]:
    """What is searched."""
    plan = TreePlan()
    tries = Knob("tries", "trees.tries", (plan.tries, 0.1, 0.6, 1.0))
    if targets.task != "regression":
        tries = Knob("tries", "trees.class_tries", (plan.class_tries, 0.1, 0.3, 0.6))
    return [
        Knob("width", "model.width", (NETWORK["width"], 32, 128)),
        Knob("layers", "model.layers", (NETWORK["layers"], 2, 4, 5)),
        Knob("lr", "train.lr", (0.002, 0.0005, 0.001, 0.005)),
        Knob("dropout", "model.dropout", (0.0, 0.1, 0.25)),
        Knob("norm", "model.norm", (NETWORK["norm"], "layer")),
        Knob("rings", "lifting", (Featuriser.lifting, "rings:6", "none")),
        Knob("ensemble", "ensemble", (ENSEMBLE, 1, 5)),
        Knob("trees", "trees", (True, False)),
        Knob("count", "trees.count", (plan.count, 100, 500)),
        tries,
    ]


@dataclass(frozen=True, eq=False)
class Tuned:
    """What came of a search.

    Attributes:
        trials: all of them.
        default: the default settings with all epochs.
        winner: the best with all epochs; the default where none was better.
        settings: of the winner.
        metric: what figures are; of numbers in several columns, errors in standard deviations of each.
        molecules: of the validation part.
        folder: where everything is.
        seconds: all trials took.
    """

    trials: Sequence[Trial]
    default: Trial
    winner: Trial
    settings: Settings
    metric: str
    molecules: int
    folder: Path
    seconds: float


def tune_table(
    table: MoleculeTable,
    out: str | Path,
    settings: Settings | None = None,
    *,
    trials: int = 20,
    minutes: float | None = None,
    fixed: Sequence[str] = (),
    device: str | None = None,
    workers: int = 1,
    resume: bool = False,
    tell: Callable[[str], None] | None = None,
) -> Tuned:
    """Search settings for a table of molecules. The test part is not looked at.

    The folder gets ``recipe.toml`` with the settings of the winner, ``trials.csv``, ``trials.png``, which shows what
    mattered, and ``journal.jsonl``, a line for each trial, from which a search that was stopped goes on.

    Args:
        table: as for `train_table`.
        out: the folder.
        settings: what is common to all trials, the split and the seed among it. The seed is that of the draws too.
        trials: candidates, the default settings among them.
        minutes: about how long to search. Each round has its share, and trials begin while there is time; but each has
            at least two, the default and the best so far.
        fixed: names of settings that are not searched. Those that `settings` has other than by default are not either.
        device: where to compute.
        workers: trials side by side, in processes. Results do not depend on it.
        resume: whether to go on with what is in `out`.
        tell: is told how far it is.

    Raises:
        CwnetError: for a table from which nothing can be learnt, or a folder that holds another search.
    """
    out, settings, tell = Path(out), settings or Settings(), tell or (lambda said: None)
    if trials < 2 or (minutes is not None and not minutes > 0):
        raise CwnetError(f"{trials} trials in {minutes} minutes: it takes at least two trials, and some time")
    space = _Space.of(table, settings, fixed)
    journal = Journal.opened(out, space.asked(), resume)
    wishes = draw(space.knobs, settings.seed, trials)
    tell(
        f"{len(wishes)} candidates, rounds of {', '.join(map(str, space.rounds))} epochs; chosen by the {space.metric} "
        f"of {len(space.seen.split.val):,} validation molecules"
    )
    going = list(range(len(wishes)))
    with open_pool(workers) as pool:
        search = _Search(space, wishes, journal, pool, device, workers, tell)
        for number, epochs in enumerate(space.rounds):
            until = math.inf if minutes is None else 60 * minutes * (number + 1) / len(space.rounds)
            ranked = sorted(search.round(number, epochs, going, until), key=space.order)
            others = [trial.number for trial in ranked if trial.number and trial.figure is not None]
            going = [0, *others[: math.ceil(len(others) / _PART)]]
    found = Tuned(
        journal.trials, next(trial for trial in ranked if not trial.number), ranked[0],
        space.settings(wishes[ranked[0].number]), space.metric, len(space.seen.split.val), out, journal.seconds,
    )  # fmt: skip
    _write(found, space, wishes)
    return found


# ------------------------------------------------------------------------------------------------ what is searched


@dataclass(frozen=True, eq=False)
class _Space:
    """What is searched, and on what.

    Attributes:
        base: what is common to all trials.
        knobs: what is searched.
        data: by lifting, the molecules that trials see.
        rounds: epochs of each.
        metric: what figures are.
    """

    base: Settings
    knobs: Sequence[Knob]
    data: Mapping[str, Prepared]
    rounds: Sequence[int]
    metric: str

    @classmethod
    def of(cls, table: MoleculeTable, base: Settings, fixed: Sequence[str]) -> _Space:
        set_already = [change.partition("=")[0].strip() for change in base.changes]
        if "train.epochs" in set_already:
            raise CwnetError("--set train.epochs: the search chooses epochs of its own; give the most with --epochs")
        if not base.network:
            raise CwnetError("a search without a network has little to search: leave it in")
        if base.level != "molecule":
            raise CwnetError(f"the search is for models of molecules, not of {base.level}s: leave out the level")
        seen = without_test(prepare_for(table, base))
        every = all_knobs(seen.targets)
        given = {knob.name for knob in every if "." not in knob.key and getattr(base, knob.key) != knob.values[0]}
        left_out = {*fixed, *given, *(() if base.trees else ("count", "tries"))}
        knobs = [knob for knob in every if knob.name not in left_out and knob.key not in set_already]
        data = {base.lifting: seen}
        for knob in knobs:
            if knob.key == "lifting":
                data |= _lifted(table, base, knob.values, seen)
        knobs = [replace(k, values=tuple(data)) if k.key == "lifting" else k for k in knobs]
        epochs = default_recipe(seen.targets, len(seen.split.train), base).train.epochs
        rounds = sorted({math.ceil(epochs / _PART**i) for i in range(_ROUNDS)})
        return cls(base, knobs, data, rounds, _metric(seen))

    @property
    def seen(self) -> Prepared:
        return self.data[self.base.lifting]

    def settings(self, wish: Mapping[str, Any], epochs: int | None = None) -> Settings:
        """The settings of a candidate, with every value that is searched, whether it is the default or not."""
        values = {knob.key: self.value(knob, wish) for knob in self.knobs}
        values = {key: value for key, value in values.items() if value is not None}
        fields = {key: value for key, value in values.items() if "." not in key}
        changes = tuple(f"{key}={value}" for key, value in values.items() if "." in key)
        return replace(self.base, epochs=epochs or self.base.epochs, changes=(*self.base.changes, *changes), **fields)

    def value(self, knob: Knob, wish: Mapping[str, Any]) -> Any:
        """What a candidate has; None where it has no trees to set."""
        if wish.get("trees") is False and knob.key.startswith("trees."):
            return None
        return wish.get(knob.name, knob.values[0])

    def order(self, trial: Trial) -> tuple[float, int]:
        """The best first; of equals the one that was drawn first; those without a figure last."""
        if trial.figure is None:
            return math.inf, trial.number
        return trial.figure if self.metric.startswith("mae") else -trial.figure, trial.number

    def asked(self) -> dict[str, Any]:
        """What decides the figure of a trial, as plain data."""
        seen, digest = self.seen, hashlib.blake2b(digest_size=16)
        for part in ("\n".join(seen.table.smiles).encode(), seen.values.numpy().tobytes()):
            digest.update(part)
        for rows in (seen.split.train, seen.split.val):
            digest.update(rows.numpy().tobytes())
        knobs = {knob.name: list(knob.values) for knob in self.knobs}
        about = {"data": digest.hexdigest(), "settings": asdict(self.base), "rounds": list(self.rounds), "knobs": knobs}
        plain: dict[str, Any] = json.loads(json.dumps(about))
        return plain


def _lifted(table: MoleculeTable, base: Settings, liftings: Sequence[str], seen: Prepared) -> dict[str, Prepared]:
    """The same molecules under other liftings. One that leaves out others would split the rest in another way."""
    found = {}
    for lifting in liftings:
        if lifting != base.lifting:
            other = without_test(prepare_for(table, replace(base, lifting=lifting)))
            same = other.table.rows.tolist() == seen.table.rows.tolist()
            if same and all(torch.equal(getattr(other.split, p), getattr(seen.split, p)) for p in ("train", "val")):
                found[lifting] = other
    return found


def without_test(prepared: Prepared) -> Prepared:
    """The molecules to train on and to choose by, as if there were no others."""
    split = prepared.split
    rows = torch.cat([split.train, split.val]).sort().values
    number = torch.full((len(prepared.store),), -1)
    number[rows] = torch.arange(len(rows))
    none = torch.zeros(0, dtype=torch.int64)
    return replace(
        prepared,
        store=prepared.store.select(rows),
        table=prepared.table.select(rows.numpy()),
        split=Split(number[split.train], number[split.val], none),
        positions=prepared.positions[rows],
        weights=None if prepared.weights is None else prepared.weights[rows],
    )


def draw(knobs: Sequence[Knob], seed: int, count: int) -> list[dict[str, Any]]:
    """Candidates as what differs from the default, which is the first; each once. More of them begin alike."""
    chance = random.Random(seed)
    found: list[dict[str, Any]] = [{}]
    for _ in range(_DRAWS * count):
        if len(found) == count:
            break
        wish = {}
        for knob in knobs:
            others = knob.values[1:]
            if others and chance.random() < _CHANGED:
                wish[knob.name] = others[int(chance.random() * len(others))]
        if wish.get("trees") is False:
            wish = {name: value for name, value in wish.items() if name not in ("count", "tries")}
        if wish not in found:
            found.append(wish)
    return found


# ------------------------------------------------------------------------------------------------ trials


@dataclass(frozen=True, eq=False)
class _Search:
    """Runs trials, unless the journal has them."""

    space: _Space
    wishes: Sequence[Mapping[str, Any]]
    journal: Journal
    pool: Pool
    device: str | None
    workers: int
    tell: Callable[[str], None]

    def round(self, number: int, epochs: int, going: Sequence[int], until: float) -> list[Trial]:
        """The trials of a round: of all candidates that are still in, or as many as there is time for."""
        waiting: list[int] = []
        found: list[Trial] = []
        for count, candidate in enumerate(going):
            known = self.journal.find(candidate, epochs, self.wishes[candidate])
            if known is None:
                waiting = list(going[count:])
                break
            found.append(known)
        for trial in self._run(waiting, epochs, len(found), until):
            self.journal.add(trial)
            found.append(trial)
            best = min(found, key=self.space.order)
            self.tell(self._line(number, epochs, trial, best, len(going)))
        return found

    def _run(self, waiting: Sequence[int], epochs: int, done: int, until: float) -> Iterator[Trial]:
        sent: list[int] = []

        def tasks() -> Iterator[tuple[Any, ...]]:
            for candidate in waiting:
                if done + len(sent) >= _LEAST and self.journal.seconds / self.workers >= until:
                    return
                settings = self.space.settings(self.wishes[candidate], epochs)
                sent.append(candidate)
                yield shared[settings.lifting], settings, self.space.metric, self.device

        shared = {lifting: self.pool.share(data) for lifting, data in self.space.data.items()} if waiting else {}
        for at, (figure, seconds, why) in enumerate(self.pool.map(_tried, tasks())):
            yield Trial(sent[at], epochs, dict(self.wishes[sent[at]]), figure, seconds, why)

    def _line(self, number: int, epochs: int, trial: Trial, best: Trial, count: int) -> str:
        said = ", ".join(f"{name} {value}" for name, value in trial.wish.items()) or "the default"
        figure = trial.why or f"{self.space.metric} {trial.figure:.4f}"
        mark = " (best of the round)" if best is trial and trial.figure is not None else ""
        return (
            f"round {number + 1}, {epochs} epochs, trial {trial.number + 1} of {count} left: {figure}{mark}; {said}; "
            f"{trial.seconds:.0f} s"
        )


def _tried(seen: Prepared, settings: Settings, metric: str, device: str | None) -> tuple[float | None, float, str]:
    """The figure of a candidate, the seconds it took, and why it has no figure if it has none."""
    start = time.perf_counter()
    try:
        model = learn(
            seen.store, seen.values, seen.targets, seen.split, settings, smiles=seen.table.smiles,
            weights=seen.weights, given=rows_of(seen.table, settings.descriptor_columns).given, device=device,
        )  # fmt: skip
    except TrainingError as error:  # such as a loss that is no number: the others go on
        return None, time.perf_counter() - start, str(error)
    return _figure(model, metric), time.perf_counter() - start, ""


_IN_DEVIATIONS = "mae in standard deviations"


def _metric(seen: Prepared) -> str:
    """What candidates are compared by: the metric of the task, or another where that has no value."""
    targets, values = seen.targets, seen.values[seen.split.val]
    if targets.task == "regression":
        return "mae" if len(targets.names) == 1 else _IN_DEVIATIONS
    both = ((values == 0).any(0) & (values == 1).any(0)).any()
    return targets.metric if targets.metric != "rocauc" or both else "accuracy"


def _figure(model: MoleculeModel, metric: str) -> float:
    figures = model.about["parts"]["validation"]["model"]
    if metric != _IN_DEVIATIONS:
        return float(figures["mean"][metric])
    known = [(figures[name], std) for name, std in zip(model.targets.names, model.targets.std, strict=True)]
    each = [found["mae"] / std for found, std in known if "mae" in found]
    return float(sum(each) / len(each))


# ------------------------------------------------------------------------------------------------ what it leaves


def _write(found: Tuned, space: _Space, wishes: Sequence[Mapping[str, Any]]) -> None:
    from cwnet.molecules._tune_plot import plot_trials

    head = (
        f"# {found.metric} of {found.molecules:,} validation molecules: {_shown(found.winner)}, the default "
        f"{_shown(found.default)}\n# cwnet train TABLE --recipe {shlex.quote(str(found.folder / 'recipe.toml'))}\n"
    )
    write_whole(found.folder / "recipe.toml", (head + settings_to_toml(found.settings)).encode())
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["trial", "epochs", found.metric, "seconds", *(knob.name for knob in space.knobs), "error"])
    for trial in sorted(found.trials, key=lambda trial: (trial.epochs, trial.number)):
        values = [space.value(knob, trial.wish) for knob in space.knobs]
        writer.writerow([trial.number + 1, trial.epochs, trial.figure, f"{trial.seconds:.1f}", *values, trial.why])
    write_whole(found.folder / "trials.csv", buffer.getvalue().encode())
    plot_trials(found.folder / "trials.png", found, {k: [space.value(k, wish) for wish in wishes] for k in space.knobs})


def _shown(trial: Trial) -> str:
    return "none" if trial.figure is None else f"{trial.figure:.4f}"
