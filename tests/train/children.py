"""Training in other processes, some of which are killed. A server that has imported everything forks them off."""

import multiprocessing
import os
import socket
import time
from pathlib import Path

import torch

CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(
    ["cwnet.train", "cwnet.data._store_file", "safetensors.torch", "sklearn.metrics", "matplotlib.backends.backend_agg"]
)


def train(recipe, out, environment, resume):
    """What a child does."""
    os.environ.update(environment)
    torch.set_num_threads(1)
    from cwnet.errors import CwnetError
    from cwnet.train import fit
    from cwnet.train._errors import Interrupted

    try:
        fit(recipe, out=out, device="cpu", resume=resume, progress=False)
    except Interrupted as stopped:
        Path(out, f"said-{environment.get('RANK', 0)}").write_text(str(stopped))
        os._exit(128 + stopped.signal)
    except CwnetError as error:
        Path(out, f"said-{environment.get('RANK', 0)}").write_text(str(error))
        os._exit(2)


def start(recipe, out, resume=False, **environment):
    process = CONTEXT.Process(target=train, args=(recipe, out, environment, resume))
    process.start()
    return process


def finish(*processes, timeout=120):
    """Exit codes; a negative one is the signal that ended it."""
    for process in processes:
        process.join(timeout)
        assert process.exitcode is not None, "it hangs"
    return [process.exitcode for process in processes]


def several(recipe, out, world=2, resume=False):
    """As torchrun would start them."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    common = {"WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    return [start(recipe, out, resume, RANK=str(r), LOCAL_RANK=str(r), **common) for r in range(world)]


def wait_for(condition, timeout=60):
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


def kill(process):
    """With signal 9, if it has not ended."""
    process.kill()


def warm_up():
    """Let the server import everything, so that what follows can be timed."""
    assert finish(_started(os.getpid)) == [0]


def _started(function):
    process = CONTEXT.Process(target=function)
    process.start()
    return process
