"""Read SMILES and pack molecules into flat arrays."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from cwnet.complexes import ComplexStore
from cwnet.errors import GraphError, LiftingWarning
from cwnet.lifting._graphs import Graph, _from_rdkit

if TYPE_CHECKING:
    from rdkit.Chem import Mol

__all__ = [
    "Molecules",
    "OnError",
    "check_arguments",
    "nci_smiles",
    "pack_molecules",
    "parse",
    "parse_plain",
    "quietly",
    "rdkit_failure",
    "rdkit_failures",
    "read_smiles",
    "require_rdkit",
    "warn_of",
]

OnError = Literal["raise", "skip"]


@dataclass(frozen=True, eq=False, repr=False)
class Molecules(Sequence["Mol"]):
    """RDKit molecules, with what they were read from.

    Attributes:
        mols: the molecules.
        smiles: the text each was read from.
        names: what followed the SMILES on its line; empty if nothing did.
        positions: the line each was read from, [molecules], counted from 0.
        skipped: the errors of lines left out at the caller's wish; each has a `position`.
    """

    mols: list[Mol]
    smiles: list[str]
    names: list[str]
    positions: NDArray[np.int64]
    skipped: tuple[GraphError, ...] = ()

    @overload
    def __getitem__(self, i: int) -> Mol: ...
    @overload
    def __getitem__(self, i: slice) -> list[Mol]: ...
    def __getitem__(self, i: int | slice) -> Mol | list[Mol]:
        return self.mols[i]

    def __len__(self) -> int:
        return len(self.mols)

    def __iter__(self) -> Iterator[Mol]:
        return iter(self.mols)

    def __repr__(self) -> str:
        many = "molecule" if len(self) == 1 else "molecules"
        skipped = f", {len(self.skipped):,} skipped" if self.skipped else ""
        return f"Molecules({len(self):,} {many}{skipped})"


def read_smiles(lines: Iterable[str], *, on_error: OnError = "raise") -> Molecules:
    """Read molecules from lines of SMILES, such as an open ``.smi`` file.

    A line is a SMILES and, after a space or tab, a name. A blank line is an error like any line that does not
    parse, so that lines and molecules do not drift apart unnoticed.

    Args:
        lines: the lines.
        on_error: what to do with a line that does not parse: an error, or leave it out. Errors of lines left out
            are in ``molecules.skipped``, and a warning says how many they are.

    Raises:
        GraphError: for a line that does not parse, with its position, its text and RDKit's reason.

    >>> molecules = read_smiles(["c1ccccc1 benzene", "CCO ethanol"])
    >>> molecules, molecules.names
    (Molecules(2 molecules), ['benzene', 'ethanol'])
    """
    check_arguments(lines, on_error)
    mols, smiles, names, positions = [], [], [], []
    skipped: list[GraphError] = []
    for i, line in enumerate(lines):
        text, _, name = line.strip().replace("\t", " ").partition(" ")
        try:
            mols.append(parse(text))
        except GraphError as error:
            if on_error == "raise":
                raise error.moved_to(i) from None
            skipped.append(error.moved_to(i))
            continue
        smiles.append(text)
        names.append(name.strip())
        positions.append(i)
    warn_of(skipped, "molecules")
    return Molecules(mols, smiles, names, np.array(positions, dtype=np.int64), tuple(skipped))


def pack_molecules(molecules: Iterable[Mol | str], *, on_error: OnError = "raise") -> ComplexStore:
    """Pack molecules as complexes of dimension one, ready for `cwnet.lift_many`.

    Vertices are atoms and carry their atomic number, edges are bonds and carry RDKit's number of the bond type;
    both are [cells, 1], int64. The same graphs come from `cwnet.lift` of single molecules. SMILES are parsed one
    by one and let go, so packing needs no memory for the molecules themselves.

    Args:
        molecules: RDKit molecules, SMILES, or what `read_smiles` gives.
        on_error: what to do with a molecule that does not parse or has no atoms: an error, or leave it out. Errors
            of molecules left out are in ``store.skipped``, and a warning says how many they are.

    Raises:
        GraphError: for a molecule that can not be packed, with its position.

    >>> pack_molecules(["c1ccccc1", "CCO"])
    ComplexStore(2 complexes: 9 vertices, 8 edges)
    """
    check_arguments(molecules, on_error)
    graphs: list[Graph] = []
    skipped: list[GraphError] = []
    for i, molecule in enumerate(molecules):
        try:
            graphs.append(_as_graph(molecule))
        except GraphError as error:
            if on_error == "raise":
                raise error.moved_to(i) from None
            skipped.append(error.moved_to(i))
    warn_of(skipped, "store")
    if isinstance(molecules, Molecules):  # nothing more can go wrong with these
        skipped = [*molecules.skipped]
    store = ComplexStore.from_graphs(
        [g.num_nodes for g in graphs],
        [len(g.edges) for g in graphs],
        _rows([g.edges for g in graphs], 2),
        x=_rows([g.x for g in graphs], 1),
        edge_x=_rows([g.edge_x for g in graphs], 1),
    )
    return replace(store, skipped=tuple(skipped))


def nci_smiles() -> list[str]:
    """The SMILES of 4,999 molecules of the National Cancer Institute's collection, which come with RDKit.

    RDKit calls the file ``first_5K.smi``. A few of its molecules do not parse today (wrong valences), so read
    them with ``on_error="skip"``.
    """
    require_rdkit()
    from rdkit import RDConfig

    path = Path(RDConfig.RDDataDir) / "NCI" / "first_5K.smi"
    if not path.exists():
        raise FileNotFoundError(f"this build of RDKit comes without its data: there is no {path}")
    return [line.split()[0] for line in path.read_text(encoding="ascii").splitlines()]


def require_rdkit() -> ModuleType:
    """RDKit's `Chem`, imported when it is first needed: it is large, and the rest of cwnet does without."""
    try:
        from rdkit import Chem
    except ImportError as error:
        raise ImportError("cwnet.chem needs RDKit: pip install cwnet[chem]") from error
    return Chem


def quietly() -> AbstractContextManager[Any]:
    """RDKit prints nothing in here: what it would print is in the errors."""
    require_rdkit()
    from rdkit import rdBase

    return rdBase.BlockLogs()


def parse(smiles: str) -> Mol:
    """The molecule of one SMILES; an error says why there is none.

    After a blank there may be an extension of ChemAxon's in bars, and nothing else: RDKit would take a second SMILES
    for a name.

    Raises:
        GraphError: for whatever RDKit refuses or fails on.
    """
    chem = require_rdkit()
    words = smiles.split(None, 1)
    if not words:
        raise GraphError("there is no SMILES: the text is blank")
    if len(words) > 1 and not words[1].startswith("|"):
        raise GraphError(
            f"SMILES {_shown(smiles)} does not parse: there is a blank in it, and what follows would not be read. Give "
            "every molecule a text or a row of its own"
        )
    for number in _ELEMENT.findall(smiles):
        if int(number) > _LAST_ELEMENT:  # RDKit fails on some, and takes 256 for 0
            raise GraphError(f"SMILES {_shown(smiles)} does not parse: there is no element {number}")
    with quietly(), rdkit_failures(f"SMILES {_shown(smiles)} does not parse"):
        mol: Mol | None = chem.MolFromSmiles(smiles)
        if mol is None:
            raise GraphError(f"SMILES {_shown(smiles)} does not parse: {_why(smiles)}")
    return mol


_ELEMENT = re.compile(r"\[\d*#(\d+)")
_LAST_ELEMENT = 118


def parse_plain(smiles: str) -> Mol | None:
    """The molecule of a SMILES that writes no stereochemistry and no hydrogen atoms, in three quarters of the time.

    RDKit removes hydrogen atoms and assigns stereochemistry in every molecule, and finds nothing to do in these. Atoms
    and bonds are those of `parse`; what RDKit notes beside them for later calls is not there. None of any other
    SMILES, and of one that RDKit refuses: `parse` says why.
    """
    if not _is_plain(smiles):
        return None
    chem = require_rdkit()
    mol: Mol | None = chem.MolFromSmiles(smiles, sanitize=False)
    if mol is None or chem.SanitizeMol(mol, catchErrors=True):
        return None
    return mol


def _is_plain(smiles: str) -> bool:
    """Without a regular expression: the memory that these use and let go makes RDKit's own a sixth slower."""
    if not smiles or not _PLAIN.issuperset(smiles):
        return False
    return not any(atom[:1] in _SPECIAL for atom in smiles.split("[")[1:])


#: No marks of stereochemistry (@, /, \\), and no extensions after a blank.
_PLAIN = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789()[]=#:.%+-")
#: What an atom in brackets must not begin with: hydrogen is [H], [2H], [D] or [T], and elements may have numbers.
_SPECIAL = "HDT#0123456789"


@contextmanager
def rdkit_failures(what: str) -> Iterator[None]:
    """Whatever RDKit raises in here is the fault of one molecule, and an error like any other.

    It checks its own conditions on the way, and raises RuntimeError, or what Boost makes of other errors, where a
    molecule breaks one.
    """
    try:
        yield
    except (GraphError, ImportError, MemoryError):
        raise
    except Exception as error:
        raise rdkit_failure(what, error) from None


def rdkit_failure(what: str, error: Exception) -> GraphError:
    """What RDKit raised, as an error of a molecule."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    said = lines[1] if lines[:1] and lines[0].endswith("Violation") and len(lines) > 1 else (lines or ["?"])[0]
    return GraphError(f"{what}: RDKit fails ({said})")


def _shown(smiles: str) -> str:
    return repr(smiles if len(smiles) <= 300 else f"{smiles[:300]}…")


def _why(smiles: str) -> str:
    """RDKit's reason for refusing a SMILES: what its chemistry or else its grammar says."""
    chem = require_rdkit()
    from rdkit import rdBase

    with rdBase.BlockLogs():
        loose = chem.MolFromSmiles(smiles, sanitize=False)
        if loose is not None:
            problems = chem.DetectChemistryProblems(loose)
            return problems[0].Message() if problems else "RDKit gives no reason"
        if not hasattr(rdBase, "CaptureErrorLog"):  # as in older versions
            return "the syntax is wrong"
        with rdBase.CaptureErrorLog() as log:
            chem.MolFromSmiles(smiles)
    return _syntax_error(log.messages)


def _syntax_error(log: str) -> str:
    """The one line of RDKit's log that says what is wrong, and where."""
    lines = [line.partition("SMILES Parse Error: ")[2] for line in log.splitlines()]
    said = [line for line in lines if line]
    if not said:
        return "the syntax is wrong"
    what = said[0].partition(" while parsing:")[0].partition(" for input:")[0]
    near = [line.rpartition(" ")[2].rstrip(":") for line in said if line.startswith("check for mistakes")]
    return f"{what} near character {near[0]}" if near else what


def _as_graph(molecule: Any) -> Graph:
    if isinstance(molecule, str):
        molecule = parse(molecule)
    elif not hasattr(molecule, "GetBonds"):
        what = "None (did a SMILES fail to parse?)" if molecule is None else f"a {type(molecule).__name__}"
        raise GraphError(f"{what} is not a molecule: give an RDKit Mol or a SMILES")
    with rdkit_failures("the molecule can not be packed"):
        graph = _from_rdkit(molecule)
    if graph.num_nodes == 0:
        raise GraphError("the molecule has no atoms: a complex needs at least one vertex")
    return graph


def _rows(parts: list[Any], width: int) -> NDArray[np.int64]:
    return np.concatenate(parts) if parts else np.zeros((0, width), dtype=np.int64)


def check_arguments(molecules: Any, on_error: str) -> None:
    """Refuse one text where many are expected, and words that mean nothing here."""
    if isinstance(molecules, str):
        raise TypeError("one text was given where many SMILES were expected: put it in a list, or use splitlines()")
    if on_error not in ("raise", "skip"):
        raise ValueError(f"on_error={on_error!r} is not one of 'raise', 'skip'")


def warn_of(skipped: list[GraphError], of: str) -> None:
    """Say how many molecules were left out, and why the first was."""
    if skipped:
        many = "1 molecule was" if len(skipped) == 1 else f"{len(skipped):,} molecules were"
        warnings.warn(f"{many} left out (see {of}.skipped); the first: {skipped[0]}", LiftingWarning, stacklevel=3)
