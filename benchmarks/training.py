"""How fast CIN trains on ZINC: the engine next to the same model written plainly with PyTorch Geometric.

    CWNET_DATA=/path/to/data python benchmarks/training.py --device cuda
    CWNET_DATA=/path/to/data python benchmarks/training.py --device cpu
    python benchmarks/training.py --render

The model is the paper's (4 layers, width 128, rings up to 18, 1,569,281 parameters), the batch 128 molecules, the
epoch 10,000. On a GPU: one run in float32, and in tf32 where that was asked for, several runs side by side, the time
before the first step in a process with and without compiled kernels on disk, where the time of a step goes by kernel,
and the floor by arithmetic; and other networks on the same engine, among them a layer of one's own
(`examples/own_layer.py`), next to the same steps one operation at a time. On a CPU: float32 and bf16 on all cores, one
thread, and a busy loop on one core beside it. Both: whether the engine's loss and weights
agree with the plain operations on a CPU after 50 steps.

Writes benchmarks/results/training_gpu.json or training_cpu.json (into the folder $OUT, where that is set). --render
makes docs/benchmarks/training.md of both. Let nothing else run meanwhile.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from _common import ROOT, describe_run, markdown_table, read_json, relative, rounded, write_json, write_text

from cwnet import _core
from cwnet.data import ComplexLoader, Dataset, load
from cwnet.nn import CIN, AttentionConv, Head, Readout, cin, gin, steady_cin
from cwnet.nn.models import molecule_encoder
from cwnet.train._fit import _keep_memory
from cwnet.train._objectives import Objective
from cwnet.train._recipe import TrainRecipe
from cwnet.train._steps import EagerSteps, Steps

RESULTS = ROOT / "benchmarks" / "results"
PAGE = ROOT / "docs" / "benchmarks" / "training.md"
BATCH = 128
#: Batches of the plain peer that are timed; an epoch has 79.
PLAIN_BATCHES = 10
#: Seconds per epoch of the official code, measured before on machines like these, not in this run.
OFFICIAL = {"cuda": 7.2, "cpu": 22.7}
#: Of an H200, by NVIDIA's data sheet: products in float32 and tf32 per second, and bytes per second.
PEAK = {"float32": 67e12, "tf32": 494e12, "bytes": 4.8e12}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--render", action="store_true")
    parser.add_argument("--first-step", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--epochs", type=int, default=3, help="epochs that are timed")
    parser.add_argument(
        "--parts", help="measure these only, separated by commas, and keep the other figures; by default all"
    )
    options = parser.parse_args()
    if options.render:
        write_text(PAGE, render())
        print(f"wrote {relative(PAGE)}")
        return
    if options.first_step:
        print(time_to_first_step(Bench(load("zinc"), "cuda", 1)))
        return
    bench = Bench(load("zinc"), options.device, options.epochs)
    figures = {**describe_run(f"python benchmarks/training.py --device {options.device}", ["torch", "triton"])}
    out = Path(os.environ.get("OUT", RESULTS)) / f"training_{'gpu' if options.device == 'cuda' else 'cpu'}.json"
    if options.parts and out.exists():
        figures = read_json(out) | figures
    if options.device == "cuda":
        figures["machine"]["gpu"] = torch.cuda.get_device_name()
    wanted = options.parts.split(",") if options.parts else list(bench.parts())
    for name in wanted:
        figures[name] = bench.parts()[name]()
        print(name, figures[name], flush=True)
        write_json(out, figures)


def own_layer(dataset: Dataset) -> CIN:
    """The model of `examples/own_layer.py`, as wide as the paper's CIN."""
    sys.path.insert(0, str(ROOT / "examples"))
    from own_layer import make

    made: CIN = make(dataset, width=128)
    return made


def attention(dataset: Dataset) -> CIN:
    convs = [AttentionConv(128) for _ in range(4)]
    return CIN(molecule_encoder(128), convs, Readout(128, 256), Head(256, 1))


#: Networks by name, and the precision in which they are trained. GIN and GIN-E have as many parameters as CIN.
NETWORKS: dict[str, tuple[Callable[[Dataset], CIN], str]] = {
    "CIN": (lambda dataset: cin(molecule_encoder(128), 128, 4), "float32"),
    "steady CIN": (lambda dataset: steady_cin(molecule_encoder(64)), "tf32"),
    "steady CIN, layer norm": (lambda dataset: steady_cin(molecule_encoder(64), norm="layer"), "tf32"),
    "CIN++": (lambda dataset: cin(molecule_encoder(128), 128, 4, plus=True), "float32"),
    "GIN-E": (lambda dataset: gin(molecule_encoder(384, dim=1), 384, 4, edges=True), "float32"),
    "GIN": (lambda dataset: gin(molecule_encoder(384, dim=0), 384, 4), "float32"),
    "a gated layer of one's own": (own_layer, "float32"),
    "attention": (attention, "float32"),
}


def model(seed: int = 0) -> CIN:
    """The paper's CIN for ZINC."""
    torch.manual_seed(seed)
    return cin(molecule_encoder(128), 128, 4)


def exhaust(steps: Iterator[int]) -> None:
    for _ in steps:
        pass


class Bench:
    """The measurements on one device."""

    def __init__(self, dataset: Dataset, device: str, epochs: int) -> None:
        self.dataset, self.device, self.epochs = (
            dataset,
            torch.device(device, 0) if device == "cuda" else device,
            epochs,
        )
        self.cuda = device == "cuda"
        self.train = torch.as_tensor(dataset.splits[0].train)
        if not self.cuda:
            _keep_memory()  # as `fit` does

    def parts(self) -> dict[str, Callable[[], Any]]:
        """What can be measured. The first step comes first: nothing is compiled then."""
        on_gpu: dict[str, Callable[[], Any]] = {
            "first_step": self.first_step,
            "engine": lambda: self.engine("float32"),
            "side_by_side": lambda: {str(n): self.side_by_side(n) for n in (2, 4, 10)},
            "ten": lambda: self.side_by_side(10),
            "kernels": lambda: self.kernels(self.steps()),
            "networks": self.networks,
            "tf32": lambda: self.engine("tf32"),
            "eager": self.eager,
        }
        on_cpu: dict[str, Callable[[], Any]] = {"engine": on_gpu["engine"]}
        if _core.multiplies_bf16():
            on_cpu["bf16"] = lambda: self.engine("bf16")
        on_cpu |= {"busy": self.busy, "one_thread": self.one_thread}
        both = {"floor": self.floor, "plain": self.plain, "agreement": self.agreement}
        return (on_gpu if self.cuda else on_cpu) | both

    def loader(self, seed: int = 0) -> ComplexLoader:
        return ComplexLoader(self.dataset.store, BATCH, index=self.train, shuffle=True, seed=seed)

    def steps(self, precision: str = "float32", seed: int = 0, lr: float = 1e-3) -> Steps:
        recipe = TrainRecipe(batch_size=BATCH, loss="l1", precision=precision, lr=lr)  # type: ignore[arg-type]
        kind: Any = EagerSteps
        if self.cuda:
            from cwnet.train._graph import GraphSteps

            kind = GraphSteps
        made: Steps = kind(model(seed), self.dataset.store, Objective("l1"), recipe, self.device)
        return made

    def engine(self, precision: str) -> dict[str, float]:
        """Seconds per epoch of one run."""
        return self.time_epochs([self.steps(precision)])

    def busy(self) -> dict[str, float]:
        """The same while another process counts on one core."""
        neighbour = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        try:
            return self.time_epochs([self.steps()], 1)
        finally:
            neighbour.kill()
            neighbour.wait()

    def one_thread(self) -> dict[str, float]:
        """The same with one thread."""
        count = torch.get_num_threads()
        torch.set_num_threads(1)
        try:
            return self.time_epochs([self.steps()], 1)
        finally:
            torch.set_num_threads(count)

    def side_by_side(self, count: int) -> dict[str, float]:
        """Seconds in which each of several runs does an epoch."""
        return self.time_epochs([self.steps(seed=seed) for seed in range(count)])

    def time_epochs(self, runs: list[Steps], epochs: int | None = None) -> dict[str, float]:
        loaders = [self.loader(seed) for seed in range(len(runs))]
        seconds = []
        for epoch in range((epochs or self.epochs) + 1):
            self.wait()
            start = time.perf_counter()
            going = [run.train(loader.batches(epoch)) for run, loader in zip(runs, loaders, strict=True)]
            while going:
                going = [steps for steps in going if next(steps, None) is not None]
            for run in runs:
                run.losses()
            self.wait()
            seconds.append(time.perf_counter() - start)
        return spread(seconds[1:])  # the first one records, or warms up

    def eager(self) -> dict[str, float]:
        """One run with the same kernels, one operation at a time."""
        recipe = TrainRecipe(batch_size=BATCH, loss="l1")
        return self.time_epochs([EagerSteps(model(), self.dataset.store, Objective("l1"), recipe, self.device)], 1)

    def wait(self) -> None:
        if self.cuda:
            torch.cuda.synchronize()

    def first_step(self) -> dict[str, Any]:
        """Seconds from a ready model to the end of its first step, here and then in a process of its own."""
        folder = Path(os.environ.get("TRITON_CACHE_DIR", Path.home() / ".triton" / "cache"))
        compiled = folder.exists() and any(folder.iterdir())
        here = time_to_first_step(self)
        command = [sys.executable, "-W", "ignore", __file__, "--first-step"]
        again = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        return {"compiled_before": compiled, "seconds": here, "seconds_when_compiled": float(again)}

    def networks(self) -> dict[str, Any]:
        """Other networks, each on the engine that it gets and one operation at a time."""
        from cwnet.train._engine import best_steps

        found: dict[str, Any] = {}
        for name, (make, precision) in NETWORKS.items():
            recipe = TrainRecipe(batch_size=BATCH, loss="l1", precision=precision)  # type: ignore[arg-type]
            made = make(self.dataset)
            steps = best_steps(made, self.dataset.store, Objective("l1"), recipe, self.device)
            row = {"parameters": sum(p.numel() for p in made.parameters()), "precision": precision, **steps.describe()}
            row |= {"epoch": self.time_epochs([steps])}
            kernels = self.kernels(steps)
            row |= {key: kernels[key] for key in ("kernels_per_step", "us_per_step")}
            plain = EagerSteps(make(self.dataset), self.dataset.store, Objective("l1"), recipe, self.device)
            row["eager"] = self.time_epochs([plain], 1)
            found[name] = row
            print(name, row, flush=True)
        return found

    def kernels(self, steps: Steps) -> dict[str, Any]:
        """Where the time of a step goes."""
        from torch.profiler import ProfilerActivity, profile

        batches, count = self.loader().batches(0), 20
        exhaust(steps.train(batches[:count]))
        self.wait()
        with profile(activities=[ProfilerActivity.CUDA]) as found:
            exhaust(steps.train(batches[:count]))
            self.wait()
        rows = [(e.key, e.count / count, e.self_device_time_total / count) for e in found.key_averages()]
        rows.sort(key=lambda row: -row[2])
        most = [{"kernel": name[:90], "per_step": n, "us_per_step": us} for name, n, us in rows[:24]]
        return {
            "kernels_per_step": sum(n for _, n, _ in rows),
            "us_per_step": sum(us for *_, us in rows),
            "most": most,
        }

    def floor(self) -> dict[str, Any]:
        """What a step must do at least: products of the layers, forward and backward, and bytes moved once."""
        cells = [int(ptr[-1]) / len(self.dataset.store) * BATCH for ptr in self.dataset.store.cell_ptr]
        width, layers = 128, 4
        square = 2 * width * width  # of one cell and one matrix
        rows = sum(cells)
        messages = (cells[0] + 2 * cells[1] + cells[2]) * square
        forward = layers * (messages + 4 * rows * square + 2 * rows * square)
        floats = layers * rows * width * (1 + 2 + 2 + 2 + 1 + 1)  # x, P and Q, z, both hidden ones, y, out
        moved = 4 * (3 * 2 * floats + 7 * 1_569_281)  # written and read, forward and twice backward; Adam
        found: dict[str, Any] = {"flops_per_step": 3 * forward, "bytes_per_step": moved}
        if self.cuda:
            found |= {f"{name}_us": 3e6 * forward / PEAK[name] for name in ("float32", "tf32")}
            found["bytes_us"] = 1e6 * moved / PEAK["bytes"]
        else:
            a, b = torch.randn(3000, width), torch.randn(width, width)
            start, count = time.perf_counter(), 300
            for _ in range(count):
                a @ b
            rate = count * 3000 * square / (time.perf_counter() - start)
            found |= {"measured_product_flops": rate, "epoch_s": 3 * forward * 79 / rate}
        return found

    def plain(self) -> dict[str, float]:
        """The same model with PyTorch Geometric's loader: a part of an epoch, carried to a whole one."""
        from _plain_cin import PlainCIN, plain_data
        from torch_geometric.loader import DataLoader

        ours = model()
        peer = PlainCIN().take(ours)
        first = self.loader().batches(0)[0]
        alike = float((peer(next(iter(DataLoader(plain_data(self.dataset.store, first), BATCH)))) - ours(
            self.dataset.store.batch(first))).abs().max())  # fmt: skip
        if alike > 0.01:
            raise SystemExit(f"the plain model and ours differ by {alike}")
        peer.to(self.device)
        optimiser = torch.optim.Adam(peer.parameters(), 1e-3)
        some = plain_data(self.dataset.store, self.train[: PLAIN_BATCHES * BATCH])
        seconds = []
        for _ in range(3):
            self.wait()
            start = time.perf_counter()
            for batch in DataLoader(some, BATCH, shuffle=True):
                batch = batch.to(self.device)
                loss = (peer(batch) - batch.y).abs().mean()
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
            self.wait()
            seconds.append((time.perf_counter() - start) * len(self.train) / len(some))
        return {**spread(seconds[1:]), "batches": PLAIN_BATCHES}

    def agreement(self) -> dict[str, Any]:
        """Losses and weights after 50 steps, next to plain operations in float64.

        The steps are tiny: at usual ones Adam turns a rounding error in a gradient near zero into a whole step, and
        float32 and float64 go apart by themselves. How far is seen from plain float32 on a CPU.
        """
        batches = self.loader().batches(0)[:50]

        def plain(precision: str, device: Any) -> EagerSteps:
            recipe = TrainRecipe(batch_size=BATCH, loss="l1", lr=1e-7, precision=precision)  # type: ignore[arg-type]
            return EagerSteps(model(), self.dataset.store, Objective("l1"), recipe, device)

        runs: dict[str, Any] = {"truth": plain("float64", "cpu"), "engine": self.steps(lr=1e-7)}
        if self.cuda:
            runs |= {"eager": plain("float32", self.device), "cpu": plain("float32", "cpu")}
        for run in runs.values():
            exhaust(run.train(batches))
        truth = runs.pop("truth")
        found = {name: difference(run, truth) for name, run in runs.items()}
        return {"steps": 50, "lr": 1e-7, "next_to": "plain operations on a CPU in float64", **found}


def difference(run: Steps, plain: Steps) -> dict[str, float]:
    """The largest difference of losses and of weights, as shares of the largest loss and of the largest change."""
    losses = (run.losses() - plain.losses()).abs().max() / plain.losses().abs().max()
    a, b = run.model.state_dict(), plain.model.state_dict()
    learnt = [name for name, _ in run.model.named_parameters()]
    weights = max(float((a[name].cpu().to(b[name].dtype) - b[name]).abs().max()) for name in learnt)
    return {"loss": float(losses), "weights": weights}


def time_to_first_step(bench: Bench) -> float:
    """Seconds until the first step is done."""
    from cwnet.train._graph import GraphSteps

    made, recipe = model(), TrainRecipe(batch_size=BATCH, loss="l1")
    torch.zeros(1, device="cuda")
    start = time.perf_counter()
    steps = GraphSteps(made, bench.dataset.store, Objective("l1"), recipe, bench.device)
    exhaust(steps.train(bench.loader().batches(0)[:1]))
    steps.losses()
    return time.perf_counter() - start


def spread(seconds: list[float]) -> dict[str, float]:
    return {"median": statistics.median(seconds), "fastest": min(seconds), "slowest": max(seconds), "n": len(seconds)}


def render() -> str:
    """The page."""
    parts = ["# Training CIN on ZINC", "", __doc__.split("\n\n")[2].replace("\n", " "), ""]
    for name, title in (("gpu", "On a GPU"), ("cpu", "On two CPU cores")):
        stored = RESULTS / f"training_{name}.json"
        if stored.exists():
            parts += [f"## {title}", "", *section(read_json(stored), name == "gpu"), ""]
    return "\n".join(parts)


def section(figures: dict[str, Any], gpu: bool) -> list[str]:
    """What was measured on one device."""
    plain = figures["plain"]["median"]
    rows = [("written plainly with PyG", plain, 1)]
    if gpu:
        rows.append(("our layers, one operation at a time", figures["eager"]["median"], 1))
    rows.append(("the engine, float32", figures["engine"]["median"], 1))
    others = {
        "bf16": "the engine, products in bf16",
        "one_thread": "the engine, float32, one thread",
        "busy": "the engine, float32, while another process keeps one core busy",
    }
    rows += [(name, figures[key]["median"], 1) for key, name in others.items() if key in figures]
    if "tf32" in figures:
        rows.append(("the engine, tf32", figures["tf32"]["median"], 1))
    many = figures.get("side_by_side", {}) | ({"10": figures["ten"]} if "ten" in figures else {})
    rows += [(f"{n} runs side by side, float32", many[n]["median"], int(n)) for n in many]
    table = markdown_table(
        ["", "seconds per epoch", "runs", "molecules/s", "times as fast"],
        [(a, rounded(s), n, rounded(n * 10_000 / s), rounded(n * plain / s)) for a, s, n in rows],
        "lrrrr",
    )
    where, versions = figures["machine"], figures["versions"]
    official = OFFICIAL["cuda" if gpu else "cpu"]
    here = where.get("gpu", where["cpu"])
    lines = [
        table, "",
        f"`{figures['command']}`, {figures['date']}, {here}, {where['cores']} cores, torch {versions['torch']}. The "
        f"official code was measured at {official} s per epoch on such a machine, in another run.", "",
    ]  # fmt: skip
    return lines + (gpu_section(figures) if gpu else cpu_section(figures)) + agreement_section(figures["agreement"])


def networks_section(found: dict[str, Any]) -> list[str]:
    rows = [
        (name, f"{r['parameters']:,}", r["precision"], rounded(r["epoch"]["median"]), rounded(r["kernels_per_step"]),
         rounded(r["eager"]["median"]), rounded(r["eager"]["median"] / r["epoch"]["median"]))
        for name, r in found.items()
    ]  # fmt: skip
    head = ["", "parameters", "precision", "seconds per epoch", "kernels per step", "one operation at a time", "times"]
    return [
        "The same engine takes any network whose padding is shown to be harmless. `times` is how much faster it is "
        "than the same layers one operation at a time:", "",
        markdown_table(head, rows, "lrlrrrr"), "",
    ]  # fmt: skip


def gpu_section(figures: dict[str, Any]) -> list[str]:
    networks = networks_section(figures["networks"]) if "networks" in figures else []
    first, floor, found = figures["first_step"], figures["floor"], figures["kernels"]
    rows = [(f"`{r['kernel'][:60]}`", rounded(r["per_step"]), rounded(r["us_per_step"])) for r in found["most"][:14]]
    return [
        *networks,
        f"Before the first step pass {rounded(first['seconds'])} s, in which the kernels are compiled, and "
        f"{rounded(first['seconds_when_compiled'])} s in a later process, which finds them on disk.", "",
        f"A step is {rounded(found['kernels_per_step'])} kernels, which take {rounded(found['us_per_step'])} µs:", "",
        markdown_table(["kernel", "per step", "µs per step"], rows, "lrr"), "",
        f"The floor: {floor['flops_per_step'] / 1e9:.1f} GFLOP take {rounded(floor['float32_us'])} µs in float32 at "
        f"the data sheet's rate ({rounded(floor['tf32_us'])} µs in tf32), and {floor['bytes_per_step'] / 1e6:.0f} MB "
        f"take {rounded(floor['bytes_us'])} µs. The step takes {rounded(found['us_per_step'] / floor['float32_us'])} "
        "times the first of these.", "",
    ]  # fmt: skip


def cpu_section(figures: dict[str, Any]) -> list[str]:
    floor = figures["floor"]
    return [
        f"The floor: {floor['flops_per_step'] * 79 / 1e12:.2f} TFLOP per epoch at the "
        f"{floor['measured_product_flops'] / 1e9:.0f} GFLOP/s that products of these sizes reach here take "
        f"{rounded(floor['epoch_s'])} s.", "",
    ]  # fmt: skip


def agreement_section(found: dict[str, Any]) -> list[str]:
    names = {"engine": "the engine", "eager": "our layers, one operation at a time", "cpu": "float32 on a CPU"}
    rows = [
        (name, f"{found[key]['loss']:.1e}", f"{found[key]['weights']:.1e}")
        for key, name in names.items()
        if key in found
    ]
    beside = found.get("next_to", "plain operations on a CPU in float32")
    return [
        f"After {found['steps']} steps from the same weights and batches at a learning rate of {found['lr']:g}, next "
        f"to {beside} (largest difference of a loss relative to the largest loss, largest difference of a weight):",
        "",
        markdown_table(["", "loss", "weights"], rows, "lrr"),
    ]


if __name__ == "__main__":
    main()
