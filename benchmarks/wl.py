"""How fast the cellular Weisfeiler–Lehman test is: cwnet next to networkx, GraKeL and PyTorch Geometric."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations, pairwise
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import torch
import typer
from _common import (
    ROOT,
    describe_run,
    markdown_table,
    measured,
    relative,
    rounded,
    time_in_turn,
    write_text,
)
from numpy.typing import NDArray
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from scipy.sparse import csr_array

from cwnet import ComplexStore, Rings, certificate, lift_many
from cwnet.wl import CWLKernel, certificates, classes, refine
from lifting import (
    BLUE,
    ONE_BY_ONE,
    ORANGE,
    PAGES,
    RESULTS,
    Disagreement,
    Molecule,
    Molecules,
    console,
    networkx_graph,
    read_molecules,
    short_number,
    speed_cells,
    target,
)

LIFTING = Rings(18)
ROUNDS = 3  # of the tests that do not run until nothing changes

CWL = "CWL on Rings(18), a hash per molecule"
LIFTED_ON_THE_WAY = "CWL on Rings(18), a hash per molecule, lifting included"
LISTED = "cwnet, a list of (n, edges), 1 thread"
LABELG = "nauty's labelg, exact, from graph6 and back"
WL_HASH = "WL, a hash per molecule"
WL_COLOURS = f"WL, the colours after {ROUNDS} rounds"
WL_COUNTS = f"WL kernel, the counts of colours in {ROUNDS} rounds"
ONE_THREAD = "cwnet, a packed store, 1 thread"
TWO_THREADS = "cwnet, a packed store, 2 threads"
LABELLED = ", atom and bond labels"


# ------------------------------------------------------------------------------------------------ effort


@dataclass(frozen=True)
class Effort:
    """How much to measure."""

    rounds: int
    seconds: float  # of one turn
    molecules: int  # at most
    exact: int  # molecules of the exact mode
    pairs: int  # of each kind, to compare verdicts
    matrix: int  # molecules of the kernel matrix to compare


FULL = Effort(rounds=5, seconds=1.0, molecules=10_000, exact=2_000, pairs=200, matrix=500)
QUICK = Effort(rounds=3, seconds=0.06, molecules=1_000, exact=100, pairs=20, matrix=50)


# -------------------------------------------------------------------------------------------------- data


def read_store(data: Path | None, molecules: Molecules) -> ComplexStore:
    """The same molecules, packed, with atoms and bonds as features where they are at hand."""
    path = data / "ZINC" / "zinc12k_train.npz" if data else None
    if path is None or not path.exists():
        return molecules.pack()
    arrays = np.load(path, allow_pickle=False)
    return ComplexStore.from_graphs(
        molecules.num_nodes, molecules.num_edges, molecules.edges, x=arrays["atom"], edge_x=arrays["bond"]
    )


# ------------------------------------------------------------------------------------------------- peers


@dataclass(frozen=True)
class Peer:
    """Another library.

    Attributes:
        name: what the table calls it.
        package: its name among the installed packages.
        section: the part of the table it belongs to.
        how: what was called.
        build: makes its own kind of input from molecules. Not timed.
        run: the test on such an input. Timed.
    """

    name: str
    package: str
    section: str
    how: str
    build: Callable[[Sequence[Molecule]], Any]
    run: Callable[[Any], Any]


def networkx_peers() -> list[Peer]:
    def build(molecules: Sequence[Molecule]) -> list[Any]:
        return [networkx_graph(m) for m in molecules]

    def run(graphs: Sequence[Any]) -> list[str]:
        return [networkx_hash(g, ROUNDS) for g in graphs]

    how = f"`weisfeiler_lehman_graph_hash(G, iterations={ROUNDS})`"
    return [Peer(f"networkx, {ROUNDS} rounds", "networkx", WL_HASH, how, build, run)]


def networkx_hash(graph: Any, rounds: int) -> str:
    from networkx import weisfeiler_lehman_graph_hash

    return weisfeiler_lehman_graph_hash(graph, iterations=rounds)


def pyg_peers() -> list[Peer]:
    from torch_geometric.data import Batch, Data
    from torch_geometric.nn import WLConv

    def build(molecules: Sequence[Molecule]) -> list[Any]:
        return [
            Data(
                x=torch.zeros(m.num_nodes, dtype=torch.int64),
                edge_index=torch.from_numpy(np.concatenate([m.edges, m.edges[:, ::-1]]).T.astype(np.int64)),
            )
            for m in molecules
        ]

    def build_batches(molecules: Sequence[Molecule]) -> list[Any]:
        graphs = build(molecules)
        return [Batch.from_data_list(graphs[i : i + 128]) for i in range(0, len(graphs), 128)]

    def run(graphs: Sequence[Any]) -> list[Any]:
        # As in PyG's examples/wl_kernel.py: one operator a round, whose table of colours is shared by all graphs.
        operators = [WLConv() for _ in range(ROUNDS)]
        colours = []
        for graph in graphs:
            x = graph.x
            for operator in operators:
                x = operator(x, graph.edge_index)
            colours.append(x)
        return colours

    how = f"`WLConv()(x, edge_index)`, {ROUNDS} of them in a row"
    batched = f"{how}, on a `Batch` of 128 graphs"
    return [
        Peer("PyG, batches of 128", "torch-geometric", WL_COLOURS, batched, build_batches, run),
        Peer("PyG, one call per molecule", "torch-geometric", WL_COLOURS, how, build, run),
    ]


def grakel_peers() -> list[Peer]:
    from grakel import Graph, WeisfeilerLehman

    def build(molecules: Sequence[Molecule]) -> list[Any]:
        graphs = [networkx_graph(m) for m in molecules]
        return [Graph({v: list(g[v]) for v in g}, dict.fromkeys(g, 0), graph_format="dictionary") for g in graphs]

    def run(graphs: Sequence[Any]) -> Any:
        return WeisfeilerLehman(n_iter=ROUNDS).fit(graphs)

    how = f"`WeisfeilerLehman(n_iter={ROUNDS}).fit(graphs)`"
    return [Peer("GraKeL, one batch", "grakel", WL_COUNTS, how, build, run)]


def labelg_peers() -> list[Peer]:
    """Canonical labelling, which decides isomorphism exactly. It knows no rings and needs none."""
    program = shutil.which("nauty-labelg") or shutil.which("labelg")
    if program is None:
        raise FileNotFoundError("labelg is not installed (Debian's package nauty)")

    def build(molecules: Sequence[Molecule]) -> bytes:
        from networkx import to_graph6_bytes

        return b"".join(to_graph6_bytes(networkx_graph(m), header=False) for m in molecules)

    def run(text: bytes) -> bytes:
        return subprocess.run([program, "-q"], input=text, capture_output=True, check=True).stdout

    return [Peer(LABELG, "nauty", LIFTED_ON_THE_WAY, "`labelg -q`, its start included", build, run)]


def working_peers(sample: Sequence[Molecule]) -> tuple[list[Peer], dict[str, str]]:
    """The peers that run here, and why the others do not."""
    makers = {"networkx": networkx_peers, "PyG": pyg_peers, "GraKeL": grakel_peers, "nauty": labelg_peers}
    peers, missing = [], {}
    for name, make in makers.items():
        try:
            made = make()
            for peer in made:
                peer.run(peer.build(sample))
        except Exception as error:  # whatever keeps a peer from running here is the reason to print
            missing[name] = type(error).__name__ + ": " + re.sub(r"/\S*/", "", str(error))  # without folders
        else:
            peers += made
    return peers, missing


# ------------------------------------------------------------------------------------------------ checks


def check_cwnet(graphs: ComplexStore, lifted: ComplexStore, exact: ComplexStore) -> None:
    """All ways to call cwnet that are timed give the same answer."""
    expected = certificates(lifted, threads=1)
    if certificates(lifted, threads=2) != expected:
        raise Disagreement("the certificates of cwnet depend on the number of threads")
    if [certificate(lifted[i], LIFTING) for i in range(10)] != expected[:10]:
        raise Disagreement("the certificates of cwnet depend on what else is in the call")
    if certificates(graphs, test="wl", threads=1) != certificates(lifted.skeleton(1), threads=1):
        raise Disagreement("WL on the graph and on the 1-skeleton differ")
    found = refine(exact, mode="exact")
    histograms = [frozenset(found.histogram(i).items()) for i in range(len(exact))]
    numbers = {h: n for n, h in enumerate(dict.fromkeys(histograms))}
    if [numbers[h] for h in histograms] != classes(exact, threads=1).tolist():
        raise Disagreement("the fast and the exact mode of cwnet find different classes of molecules")


def check_colours(peer: Peer, molecules: Sequence[Molecule], graphs: ComplexStore) -> None:
    """Two vertices have one colour in cwnet if they have one in the peer."""
    ours = vertex_colours(graphs)[-1].tolist()
    theirs = torch.cat(peer.run(peer.build(molecules))).tolist()
    both = set(zip(ours, theirs, strict=True))
    if not len(both) == len(set(ours)) == len(set(theirs)):
        raise Disagreement(f"{peer.name} and cwnet colour vertices differently after {ROUNDS} rounds of WL")


def check_kernel(peer: Peer, molecules: Sequence[Molecule], graphs: ComplexStore) -> None:
    """The kernel matrix of the peer is that of cwnet, counting vertices only."""
    ours = np.zeros((len(graphs), len(graphs)))
    graph_of = torch.repeat_interleave(graphs.cell_ptr[0].diff()).numpy()
    for colours in vertex_colours(graphs):
        counts = csr_array((np.ones(len(graph_of)), (graph_of, colours.numpy())))
        ours += (counts @ counts.T).toarray()
    inputs = peer.build(molecules)
    if not np.array_equal(peer.run(inputs).transform(inputs), ours):
        raise Disagreement(f"{peer.name} and cwnet have different WL kernels")


def vertex_colours(graphs: ComplexStore) -> list[torch.Tensor]:
    """The colours of all vertices in rounds 0 to 3; a colouring that is stable before repeats itself."""
    colours = [dims[0] for dims in refine(graphs, max_rounds=ROUNDS, threads=1).colours]
    return colours + colours[-1:] * (ROUNDS + 1 - len(colours))


def compare_verdicts(molecules: Molecules, graphs: ComplexStore, effort: Effort) -> list[dict[str, Any]]:
    """WL by cwnet and by networkx, on pairs of molecules without labels.

    Random pairs are nearly always told apart, so there are also pairs with as many vertices and edges, and pairs that
    cwnet does not tell apart.
    """
    ours = certificates(graphs, test="wl", threads=1)
    random = np.random.default_rng(0)
    drawn = [tuple(random.choice(len(molecules), 2, replace=False).tolist()) for _ in range(effort.pairs)]
    sizes = list(zip(molecules.num_nodes.tolist(), molecules.num_edges.tolist(), strict=True))
    kinds = {
        "random": drawn,
        "as many vertices and edges": pairs_within(sizes, effort.pairs, random),
        "not told apart by cwnet": pairs_within(ours, effort.pairs, random),
    }
    results = []
    for kind, pairs in kinds.items():
        outcomes = Counter((ours[i] == ours[j], networkx_equal(molecules, i, j)) for i, j in pairs)
        if outcomes[True, False] + outcomes[False, True]:
            raise Disagreement(f"WL by networkx and by cwnet differ on pairs ({kind}): {dict(outcomes)}")
        results.append({"pairs": kind, "compared": len(pairs), "told_apart_by_both": outcomes[False, False]})
    return results


def pairs_within(keys: Sequence[Any], count: int, random: np.random.Generator) -> list[tuple[int, int]]:
    """At most so many pairs of molecules with the same key."""
    members: dict[Any, list[int]] = {}
    for i, key in enumerate(keys):
        members.setdefault(key, []).append(i)
    groups = [g for g in members.values() if len(g) > 1]
    pairs = [pair for g in groups for pair in (combinations(g, 2) if len(g) < 5 else pairwise(g))]
    return [pairs[i] for i in random.permutation(len(pairs))[:count]]


def networkx_equal(molecules: Molecules, i: int, j: int) -> bool:
    first, second = (networkx_graph(m) for m in molecules[np.array([i, j])])
    rounds = max(len(first), len(second))  # a colouring of n vertices is stable after n - 1 rounds
    return networkx_hash(first, rounds) == networkx_hash(second, rounds)


# ----------------------------------------------------------------------------------------------- the table


@dataclass(frozen=True)
class Entry:
    """A row of the table before it is timed."""

    section: str
    name: str
    molecules: int
    call: Callable[[], object]


def measure_table(entries: Sequence[Entry], effort: Effort, step: Callable[..., Any]) -> list[Any]:
    times = time_in_turn({(e.section, e.name): e.call for e in entries}, effort.rounds, effort.seconds, step)
    rows: list[dict[str, Any]] = []
    for entry in entries:
        rates = times[entry.section, entry.name].rates(entry.molecules)
        rows.append({"section": entry.section, "name": entry.name, "molecules": entry.molecules} | rates)
    first: dict[str, float] = {}
    for row in rows:
        row["first_row_is_times_faster"] = first.setdefault(row["section"], row["per_second"]) / row["per_second"]
    return rows


def cwnet_entries(molecules: Molecules, graphs: ComplexStore, seconds: float, exact: int) -> Iterable[Entry]:
    lifted = lift_many(graphs, LIFTING, threads=1)
    skeleton = lifted.skeleton(1)
    some = lifted.select(molecules.spread(exact))
    n = len(graphs)

    def one_by_one(lifting: Any, chosen: Sequence[Molecule]) -> list[str]:
        return [certificate(m, lifting) for m in chosen]

    batches = ((ONE_THREAD, 1), (TWO_THREADS, 2))
    for name, threads in batches:
        yield Entry(CWL, name, n, partial(certificates, lifted, threads=threads))
    if graphs.x[0] is not None:
        for name, threads in batches:
            yield Entry(CWL, name + LABELLED, n, partial(certificates, lifted, initial="features", threads=threads))
    yield Entry(CWL, "cwnet, exact mode, colours of all rounds", len(some), partial(refine, some, mode="exact"))
    everything = molecules[molecules.spread(n)]
    yield Entry(LIFTED_ON_THE_WAY, LISTED, n, partial(certificates, everything, LIFTING, threads=1))
    chosen = affordable(molecules, partial(one_by_one, LIFTING), list, seconds)
    yield Entry(LIFTED_ON_THE_WAY, ONE_BY_ONE, len(chosen), partial(one_by_one, LIFTING, molecules[chosen]))
    for name, threads in batches:
        yield Entry(LIFTED_ON_THE_WAY, name, n, partial(certificates, graphs, LIFTING, threads=threads))
    for name, threads in batches:
        yield Entry(WL_HASH, name, n, partial(certificates, skeleton, threads=threads))
    chosen = affordable(molecules, partial(one_by_one, None), list, seconds)
    yield Entry(WL_HASH, ONE_BY_ONE, len(chosen), partial(one_by_one, None, molecules[chosen]))
    yield Entry(WL_COLOURS, ONE_THREAD, n, partial(refine, skeleton, max_rounds=ROUNDS, threads=1))
    yield Entry(WL_COUNTS, ONE_THREAD, n, partial(count_colours, skeleton, None))
    yield Entry(WL_COUNTS, f"{ONE_THREAD}, CWL on {LIFTING!r}", n, partial(count_colours, graphs, LIFTING))


def count_colours(graphs: ComplexStore, lifting: Any) -> Any:
    return CWLKernel(lifting, rounds=ROUNDS, threads=1).fit_transform(graphs)


def peer_entry(peer: Peer, molecules: Molecules, seconds: float) -> Entry:
    chosen = affordable(molecules, peer.run, peer.build, seconds)
    return Entry(peer.section, peer.name, len(chosen), partial(peer.run, peer.build(molecules[chosen])))


def affordable(
    molecules: Molecules, run: Callable[[Any], object], build: Callable[[Any], Any], seconds: float
) -> NDArray[np.int64]:
    """Molecules that take about so many seconds, spread over the data set; 128 at least."""
    sample = build(molecules[molecules.spread(128)])
    run(sample)
    start = time.perf_counter()
    run(sample)
    count = 128 * seconds / (time.perf_counter() - start)
    digits = 10 ** max(0, math.floor(math.log10(max(count, 1))) - 1)
    return molecules.spread(max(128, int(count // digits * digits)))


def by_section(entries: Iterable[Entry]) -> list[Entry]:
    order = [LIFTED_ON_THE_WAY, CWL, WL_HASH, WL_COLOURS, WL_COUNTS]
    return sorted(entries, key=lambda e: order.index(e.section))


def judge(figures: dict[str, Any]) -> list[Any]:
    """The targets that this run can judge."""
    speed = {(row["section"], row["name"]): row["per_second"] for row in figures["table"]}
    targets = [
        target(f"{section}, {name}: molecules/s", f"≥ {least:,}", found, found >= least)
        for section, name, least in (
            (LIFTED_ON_THE_WAY, ONE_THREAD, 400_000),
            (LIFTED_ON_THE_WAY, ONE_BY_ONE, 50_000),
            (CWL, ONE_THREAD, 150_000),
        )
        for found in [speed[section, name]]
    ]
    if (LIFTED_ON_THE_WAY, LABELG) in speed:
        ratio = speed[LIFTED_ON_THE_WAY, ONE_THREAD] / speed[LIFTED_ON_THE_WAY, LABELG]
        targets.append(target(f"{LIFTED_ON_THE_WAY}: times faster than labelg", "≥ 2", ratio, ratio >= 2))
    return targets


# ------------------------------------------------------------------------------------------ what is written


def print_table(figures: dict[str, Any]) -> None:
    data = figures["data"]
    table = Table(title=f"WL tests on {data['name']}: {data['molecules']:,} molecules", title_justify="left")
    table.add_column("")
    for head in ("molecules/s", "slowest to fastest", "first row is faster by", "timed on"):
        table.add_column(head, justify="right")
    last = None
    for row in figures["table"]:
        if row["section"] != last:
            table.add_section()
            table.add_row(row["section"], style="bold")
        table.add_row(f"  {row['name']}", *table_cells(row))
        last = row["section"]
    console.print(table)


def table_cells(row: dict[str, Any]) -> list[str]:
    return [*speed_cells(row), f"{rounded(row['first_row_is_times_faster'])}x", f"{row['molecules']:,}"]


def print_rest(figures: dict[str, Any]) -> None:
    for line in verdict_lines(figures):
        console.print(line)
    for name, reason in figures["missing"].items():
        console.print(f"{name} was left out: {reason}")
    for judged in figures["targets"]:
        verdict = "[green]met[/]" if judged["met"] else "[red]missed[/]"
        console.print(f"target {verdict}: {judged['what']} {judged['target']}, measured {rounded(judged['measured'])}")


def verdict_lines(figures: dict[str, Any]) -> list[str]:
    return [
        f"- Pairs of molecules ({v['pairs']}): {v['compared']} compared. Both tell {v['told_apart_by_both']} apart, "
        f"and neither tells the other {v['compared'] - v['told_apart_by_both']} apart."
        for v in figures["verdicts"]
    ]


def page(figures: dict[str, Any], picture: str) -> str:
    """The page of the documentation. It holds nothing that is not in the figures."""
    data = figures["data"]
    missing = [f"{name} was left out: {reason}." for name, reason in figures["missing"].items()]
    sections = [
        "# How fast is the cellular Weisfeiler–Lehman test?",
        "**This is a smoke test (`--quick`). Its figures mean nothing.**" if figures["quick"] else "",
        f"Data: {data['name']}, {data['molecules']:,} molecules, {data['vertices']:,} vertices, {data['edges']:,} "
        f"edges and {data['rings']:,} rings. CWL takes {rounded(data['rounds_mean'])} rounds on average until nothing "
        f"changes, and {data['rounds_most']} at most. {made_with(figures)} All figures are in "
        f"[wl.json](../../{RESULTS}/wl.json).",
        markdown_table(
            ["", "", "molecules/s", "slowest to fastest", "first row is faster by", "timed on"],
            [[row["section"], row["name"], *table_cells(row)] for row in figures["table"]],
            "llrrrr",
        ),
        '"first row is faster by" compares with the first row that has the same text on the left. "timed on" is a '
        "number of molecules." + "".join(f" {m}" for m in missing),
        f"![Molecules per second by method]({picture})",
        "## How it was measured",
        METHOD.format(seconds=rounded(figures["effort"]["seconds"]), rounds=figures["effort"]["rounds"]),
        "What was called:",
        markdown_table(["", ""], [[f"cwnet: {name}", how] for name, how in CALLS.items()] + figures["peers"]),
        "## Do they agree?",
        "The benchmark checks this before it measures, and stops if they do not.",
        "\n".join([AGREEMENT, *(f"  {line}" for line in verdict_lines(figures))]),
        "## Targets",
        markdown_table(
            ["", "target", "measured", "met"],
            [[t["what"], t["target"], rounded(t["measured"]), "yes" if t["met"] else "no"] for t in figures["targets"]],
            "lrrl",
        ),
    ]
    return "\n\n".join(section for section in sections if section)


CALLS = {
    "CWL, a hash per molecule": "`certificates(store)`, where the store is lifted already",
    "lifting included": "`certificates(graphs, Rings(18))`; one by one `certificate(graph, Rings(18))`",
    "exact mode": '`refine(store, mode="exact")`, which compares all molecules with each other',
    "WL, a hash per molecule": "`certificates(store.skeleton(1))`; one by one `certificate(graph, None)`",
    "WL, the colours": f"`refine(store.skeleton(1), max_rounds={ROUNDS})`",
    "counts of colours": f"`CWLKernel(None, rounds={ROUNDS}).fit_transform(graphs)`, and with `Rings(18)`",
}

METHOD = f"""\
- All rows ran in one process, in turns. Each round gave every row one turn, so a slow moment of the machine hits all
  of them. A turn repeats its work for about {{seconds}} s, and at least once. The table shows the median of {{rounds}}
  rounds, and the slowest and the fastest of them.
- Everyone starts from inputs of their own kind, made before the clock starts. For cwnet that is what a row says: a
  Python list of `(num_nodes, edges)`, one such pair per call, or a packed `ComplexStore`.
- labelg labels canonically, which decides isomorphism; certificates of cwnet do not, but they are made of rings and
  can take labels. It is a program of its own: its row has its start, and graphs in and out as text.
- A slow row ran on fewer molecules, evenly spaced over the data set, so that a turn stays short.
- cwnet hashes until nothing changes. networkx, PyG and GraKeL have no such mode and were given {ROUNDS} rounds.
  networkx starts from degrees, which is the first round for free. They know vertices and edges only, no rings.
- Colours are uniform at first, where the row does not say otherwise.
- The row of GraKeL leaves out the kernel matrix, and so do the rows of cwnet next to it. Theirs count the colours
  of edges, too; GraKeL counts those of vertices.
- PyTorch was held to one thread."""

AGREEMENT = f"""\
- cwnet gives the same certificates with one and two threads, in a batch and one by one, and its fast and exact modes
  find the same classes of molecules.
- PyG colours the vertices as cwnet does, after {ROUNDS} rounds.
- The kernel matrix of GraKeL is the one that cwnet's colours of vertices give, entry by entry.
- WL by networkx, with as many rounds as vertices, and WL by cwnet gave the same verdict on all pairs that were
  tried:"""


def made_with(figures: dict[str, Any]) -> str:
    """On what machine and code the figures were made."""
    machine, commit = figures["machine"], figures["commit"]
    code = f"commit `{commit['id'][:12]}`" if commit["id"] else "an unknown commit"
    changed = " with changes that were not committed" if commit["changed_since"] else ""
    versions = ", ".join(f"{name} {version}" for name, version in figures["versions"].items() if version)
    return (
        f"Made with `{figures['command']}` on {figures['date']}, {code}{changed}, on {machine['cores']} cores of "
        f"{machine['cpu']} ({machine['system']}, {machine['memory_gb']} GB of memory, load {machine['load_before']} "
        f"before the run). Versions: {versions}."
    )


def draw(figures: dict[str, Any], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot as plt

    style = {
        "font.size": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.spines.left": False,
        "axes.titlesize": 11,
        "axes.titlelocation": "left",
    }
    with plt.rc_context(style):
        sections = list(dict.fromkeys(row["section"] for row in figures["table"]))
        height = 0.31 * (len(figures["table"]) + len(sections)) + 0.8
        figure, axis = plt.subplots(figsize=(9, height), layout="constrained")
        draw_bars(axis, figures["table"], sections)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=150)
        plt.close(figure)


def draw_bars(axis: Any, rows: Sequence[dict[str, Any]], sections: Sequence[str]) -> None:
    from matplotlib.patches import Patch
    from matplotlib.ticker import FuncFormatter

    left = 10 ** math.floor(math.log10(min(row["slowest"] for row in rows)))
    ticks: dict[float, str] = {}
    y = 0.0
    for section in sections:
        axis.text(left * 1.04, y, section, va="center", fontweight="bold")
        for row in (r for r in rows if r["section"] == section):
            y += 1
            speed = row["per_second"]
            color = BLUE if row["name"].startswith("cwnet") else ORANGE
            spread = [[speed - row["slowest"]], [row["fastest"] - speed]]
            axis.barh(y, speed, 0.72, color=color, xerr=spread, error_kw={"lw": 1, "alpha": 0.6})
            axis.text(row["fastest"] * 1.06, y, rounded(speed), va="center", fontsize=9)
            ticks[y] = row["name"]
        y += 1.2
    axis.set_yticks(list(ticks), list(ticks.values()))
    axis.tick_params(axis="y", length=0)
    fastest = max(row["fastest"] for row in rows)
    axis.set(xscale="log", xlim=(left, fastest * 3), ylim=(y - 0.5, -0.7), title="Molecules per second")
    axis.xaxis.set_major_formatter(FuncFormatter(short_number))
    axis.grid(axis="x", alpha=0.25)
    axis.set_axisbelow(True)
    axis.legend(handles=[Patch(color=BLUE, label="cwnet"), Patch(color=ORANGE, label="others")], loc="lower right")


# ------------------------------------------------------------------------------------------------- the run


def measure(data: Path | None, quick: bool) -> dict[str, Any]:
    effort = QUICK if quick else FULL
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("reading molecules", total=3 + effort.rounds)

        def step(what: str | None = None) -> None:
            progress.update(task, advance=1, **({"description": what} if what else {}))

        whole = read_molecules(data)
        molecules, graphs = cut_to(effort.molecules, whole, read_store(data, whole))
        lifted = lift_many(graphs, LIFTING, threads=1)
        peers, missing = working_peers(molecules[molecules.spread(8)])
        packages = dict.fromkeys(p.package for p in peers)
        figures = describe_run("python benchmarks/wl.py" + " --quick" * quick, ["cwnet", "numpy", "torch", *packages])
        step("checking that all agree")
        check_cwnet(graphs, lifted, lifted.select(molecules.spread(effort.exact)))
        chosen = molecules.spread(effort.matrix)
        for peer in peers:
            if peer.section in (WL_COLOURS, WL_COUNTS):
                check = check_colours if peer.section == WL_COLOURS else check_kernel
                check(peer, molecules[chosen], graphs.select(chosen))
        agree = any(p.package == "networkx" for p in peers)
        rounds = refine_rounds(lifted)
        figures |= {
            "quick": quick,
            "data": {
                "name": molecules.name,
                "molecules": len(molecules),
                "vertices": lifted.num_cells[0],
                "edges": lifted.num_cells[1],
                "rings": lifted.num_cells[2],
                "rounds_mean": float(rounds.mean()),
                "rounds_most": int(rounds.max()),
            },
            "effort": {"rounds": effort.rounds, "seconds": effort.seconds},
            "peers": [[p.name, p.how] for p in peers],
            "missing": missing,
            "verdicts": compare_verdicts(molecules, graphs, effort) if agree else [],
        }
        step("making inputs")
        entries = [
            *cwnet_entries(molecules, graphs, effort.seconds, effort.exact),
            *(peer_entry(p, molecules, effort.seconds) for p in peers),
        ]
        step("timing")
        figures["table"] = measure_table(by_section(entries), effort, step)
    return figures | {"targets": judge(figures)}


def cut_to(count: int, molecules: Molecules, graphs: ComplexStore) -> tuple[Molecules, ComplexStore]:
    if count >= len(molecules):
        return molecules, graphs
    return molecules.tiled(count), graphs.select(slice(count))


def refine_rounds(store: ComplexStore) -> NDArray[np.int32]:
    """The round after which nothing changes, per complex."""
    from cwnet.wl._refine import refine_fast

    return refine_fast(store).rounds


def main(
    quick: Annotated[
        bool, typer.Option("--quick", help="Everything small, as a smoke test; writes to build/quick/ instead.")
    ] = False,
    data: Annotated[
        Path | None,
        typer.Option(envvar="CWNET_DATA", help="Folder with ZINC/.", show_default=False),
    ] = None,
    render: Annotated[
        bool, typer.Option("--render", help="Measure nothing: print and write anew from the stored figures.")
    ] = False,
) -> None:
    """Measure how fast molecules are tested, next to other libraries, and write the figures down.

    Runs CWL on Rings(18) until nothing changes, with and without lifting, and WL on the graphs alone: with cwnet (a
    list, one call per molecule, a packed store with one and two threads, the exact mode), networkx, PyG, and GraKeL
    and nauty's labelg where they are installed. Prints one table, in molecules per second. Stops with an error if two
    of them do not agree.

    Molecules are read from ZINC/zinc12k_train.npz in the data folder; without it, the NCI molecules inside RDKit are
    used. Needs the extras `bench` and `pyg` of cwnet, and `pip install grakel`. Takes less than ten minutes; let
    nothing else run meanwhile.

    Writes benchmarks/results/wl.json (all figures), docs/benchmarks/wl.md (the page made from them) and
    docs/benchmarks/wl.png.
    """
    torch.set_num_threads(1)
    # networkx says with every call that its hashes were others before version 3.5.
    warnings.filterwarnings("ignore", message="The hashes produced for graphs", category=UserWarning)
    out = ROOT / "build" / "quick" if quick else ROOT
    stored = out / RESULTS / "wl.json"
    picture = out / PAGES / "wl.png"
    figures = measured(stored, lambda: measure(data, quick), render, Disagreement)
    write_text(picture.with_name("wl.md"), page(figures, picture.name))
    draw(figures, picture)
    print_table(figures)
    print_rest(figures)
    console.print("written: " + ", ".join(relative(p) for p in (stored, picture.with_name("wl.md"), picture)))


if __name__ == "__main__":
    app = typer.Typer(add_completion=False, rich_markup_mode="markdown")
    app.command()(main)
    app()
