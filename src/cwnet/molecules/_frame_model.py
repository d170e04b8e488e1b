"""Models in a notebook: trained on a data frame, shown as a page, used on data frames."""

from __future__ import annotations

import base64
import html
import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from cwnet.data import frame_table, read_table
from cwnet.errors import CwnetError
from cwnet.molecules._model import ModelError, MoleculeModel
from cwnet.molecules._predict import _predict_piece, _rows, check_names, describe, prediction_columns
from cwnet.molecules._train import Settings, Trained, train_table

__all__ = ["FrameModel", "train"]

#: The level of intervals that predictions have.
_LEVEL = 0.9
_PLOTS = ("parity.png", "roc.png", "confusion.png")
_STYLE = "border-collapse:collapse;margin:.5em 0"


def train(
    data: Any,
    smiles: str | None = None,
    targets: Sequence[str] | str | None = None,
    *,
    task: Literal["regression", "classification"] | None = None,
    folder: str | os.PathLike[str] | None = None,
    device: str | None = None,
    progress: bool = True,
    **settings: Any,
) -> FrameModel:
    """Train a model on a table in memory, as ``cwnet train`` does on a file.

    Args:
        data: a data frame of pandas or polars, an Arrow table or what exports one, a dictionary of columns; or a file.
        smiles: the column of SMILES; by default found by name.
        targets: the columns to learn; by default all columns of numbers.
        task: what they are; by default classes if they hold text, or 0 and 1 only.
        folder: for all that comes of it; by default one that goes when the model does. See `FrameModel.save`.
        device: "cpu", "cuda", or by default a GPU if there is one.
        progress: whether to show how far it is.
        **settings: see `Settings`: ``split="scaffold"``, ``ensemble=5``, ``epochs=40``, ...

    Raises:
        CwnetError: for a table from which nothing can be learnt; before training.
    """
    wishes = _settings(settings)
    if wishes.level != "molecule":
        raise CwnetError(f"level={wishes.level!r} goes with files: cwnet train TABLE --target-level {wishes.level}")
    if isinstance(data, (str, os.PathLike)):
        table = read_table(data, smiles, targets, task=task)
    else:
        table = frame_table(data, smiles, targets, task=task)
    if folder is not None:
        return FrameModel(train_table(table, Path(folder), wishes, device=device, progress=progress))
    temporary = tempfile.TemporaryDirectory(prefix="cwnet-", ignore_cleanup_errors=True)
    return FrameModel(train_table(table, temporary.name, wishes, device=device, progress=progress), temporary)


def _settings(given: dict[str, Any]) -> Settings:
    """Settings by name; changes may be a list."""
    known = list(Settings.__dataclass_fields__)
    for name in given:
        if name not in known:
            raise CwnetError(f"there is no setting {name!r}: the settings are {', '.join(known)}")
    if "changes" in given:
        given = {**given, "changes": tuple(given["changes"])}
    return Settings(**given)


class FrameModel:
    """A trained model that takes and gives data frames, and shows itself in a notebook.

    Args:
        trained: what came of training.
        temporary: the folder it is in, where that is a temporary one.

    Attributes:
        model: the model itself, see `MoleculeModel`.
        metrics: of the test part: per column, and "mean" over them.
        folder: where everything is: ``report.html``, predictions of the test part, the model.
    """

    def __init__(self, trained: Trained, temporary: Any = None) -> None:
        self.model: MoleculeModel = trained.model
        self.metrics, self.folder, self.seconds = trained.metrics, trained.folder, trained.seconds
        self.notes = trained.prepared.notes
        self._temporary = temporary

    def predict(self, data: Any, smiles: str | None = None, *, interval: float | None = None) -> Any:
        """Predict molecules: the columns that ``cwnet predict`` writes.

        Args:
            data: SMILES, or a table as `train` takes it, whose columns are kept.
            smiles: the column of SMILES; by default found by name.
            interval: the probability with which intervals hold the value; 0 for none. By default 0.9, where the model
                can give them.

        Returns:
            What `data` is: a data frame of pandas or polars, or an Arrow table. For SMILES and dictionaries, a
            dictionary of lists. A row that cannot be read has None and says why in "error".
        """
        texts = isinstance(data, (list, tuple)) and all(isinstance(text, str) for text in data)
        table = frame_table({"smiles": list(data)} if texts else data, "smiles" if texts else smiles, ())
        level = self._level(interval)
        found, reasons = _predict_piece(self.model, _rows(self.model, table))
        rows = iter(describe(self.model, found, level))
        new = prediction_columns(self.model, level)
        check_names(table.columns.column_names, [*new, "error"], table.path)
        filled = [[None] * len(new) if i in reasons else next(rows) for i in range(len(table))]
        result = {name: table.column(name) for name in table.columns.column_names}
        result |= {name: [row[i] for row in filled] for i, name in enumerate(new)}
        return _like(data, {**result, "error": [reasons.get(i) for i in range(len(table))]})

    def _level(self, wish: float | None) -> float | None:
        if wish is not None:
            return wish or None
        try:
            self.model.half_width(_LEVEL)
        except ModelError:
            return None
        return _LEVEL

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Keep the folder: the model, for `MoleculeModel.load` and the command line, with its figures and report.

        Raises:
            CwnetError: if there is something at that place.
        """
        place = Path(folder)
        try:
            shutil.copytree(self.folder, place)
        except FileExistsError:
            raise CwnetError(f"{place} is there already: choose another folder") from None
        except OSError as error:
            raise CwnetError(f"{place} cannot be written: {error.strerror}") from None
        self.folder, self._temporary = place, None
        return place

    # -------------------------------------------------------------------------------------------- shown

    def __repr__(self) -> str:
        figures = ", ".join(f"{metric} {value:.4f}" for metric, value in self.metrics.get("mean", {}).items())
        return f"FrameModel({', '.join(self.model.targets.names)}; test {figures or 'none'}; {self.folder})"

    def _repr_html_(self) -> str:
        split = self.model.about["split"]
        parts = [
            f"<p><b>{html.escape(', '.join(self.model.targets.names))}</b>: {split['train']:,} molecules to train on, "
            f"{split['val']:,} to choose by, {split['test']:,} to test on; {self.seconds:,.0f} s.</p>",
            *(f"<p>{html.escape(note)}</p>" for note in self.notes),
            self._figures(),
            *(_image(self.folder / name) for name in _PLOTS if (self.folder / name).is_file()),
            f"<pre>{html.escape(self._go_on())}</pre>",
        ]
        return "<div>" + "\n".join(filter(None, parts)) + "</div>"

    def _figures(self) -> str:
        """The figures of the test part: a row per column, and their mean where there are several."""
        shown = {name: found for name, found in self.metrics.items() if name != "mean" or len(self.metrics) > 2}
        metrics = list(dict.fromkeys(metric for found in shown.values() for metric in found))
        if not metrics:
            return "<p>There is no test part, so there is nothing to measure the model by.</p>"
        head = "".join(f"<th>{metric}</th>" for metric in ("test", *metrics))
        rows = []
        for name, found in shown.items():
            cells = "".join(f"<td>{found[m]:.4f}</td>" if m in found else "<td>–</td>" for m in metrics)
            rows.append(f"<tr><td>{html.escape(name)}</td>{cells}</tr>")
        return f'<table style="{_STYLE}"><tr>{head}</tr>{"".join(rows)}</table>'

    def _go_on(self) -> str:
        where = shlex.quote(str(self.folder))
        lines = [
            'model.predict(["CCO"])          # or a data frame',
            f"cwnet predict {where} new.csv -o predicted.csv",
            f"cwnet explain {where} new.csv -o explained.html",
        ]
        kept = [] if self._temporary is None else ['model.save("model")             # the folder is a temporary one']
        return "\n".join([*kept, *lines, f"everything is in {where}, report.html shows it"])


def _like(data: Any, columns: dict[str, list[Any]]) -> Any:
    """Columns as what was given; whoever gave a data frame has its package."""
    home = type(data).__module__.partition(".")[0]
    if home in ("pandas", "polars"):
        options = {"index": data.index} if home == "pandas" else {}
        return sys.modules[home].DataFrame(columns, **options)
    if hasattr(data, "__arrow_c_stream__"):
        import pyarrow as pa

        return pa.table(columns)
    return columns


def _image(path: Path) -> str:
    """A picture inside a page."""
    data = base64.b64encode(path.read_bytes()).decode()
    return f'<img src="data:image/png;base64,{data}" alt="{html.escape(path.stem)}" style="max-width:100%">'
