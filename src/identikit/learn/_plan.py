"""How seeds are best trained: as a stack, in processes, or one by one."""

from __future__ import annotations

import time
from collections.abc import Sequence
from multiprocessing import parent_process

import torch
from joblib import cpu_count

from identikit._progress import Progress
from identikit.errors import InputError
from identikit.learn._batches import Batch
from identikit.learn._fit import Outcome, Task
from identikit.learn._learner import Learner, largest_tensor, why_not_stacked
from identikit.learn._modules import SoftmaxNet
from identikit.learn._objectives import Objective
from identikit.learn._units import in_processes, in_turn, packed, threads

#: A step whose tensors are all smaller than this is mostly the cost of calling operations, which a
#: stack saves; larger ones fill the cache by themselves, and a stack would empty it.
SMALL = 2**16
#: Below this a second thread costs more in waiting than it gains: a factor of 15 was seen on a busy
#: machine, against 1.7 to be gained on an idle one.
LARGE = 2**20
#: Seconds of training from which on it is worth to start processes.
WORTH = 20.0


def stacked(
    together: bool | None, seeds: int, net: SoftmaxNet, objective: Objective, batch: Batch
) -> bool:
    """Whether the seeds are trained as one stack; the choice depends on sizes only, not on time.

    Parameters
    ----------
    together : bool, optional
        What the caller wants.
    seeds : int
        How many.
    net, objective, batch
        A network, its loss, and what it is given.
    """
    if seeds == 1 or together is False:
        return False
    if together is None and largest_tensor(net, objective, batch) >= SMALL:
        return False
    reason = why_not_stacked(net, objective, batch)
    if together and reason is not None:
        raise InputError(
            f"these networks cannot be trained as one stack: {reason}; leave together=None"
        )
    return reason is None


def carry_out(
    tasks: Sequence[Task],
    together: bool | None,
    net: SoftmaxNet,
    batch: Batch,
    progress: Progress | None,
) -> list[Outcome]:
    """Train the units where it is quickest.

    Parameters
    ----------
    tasks : sequence of Task
        The units.
    together : bool, optional
        False: not in processes.
    net : SoftmaxNet
        A network to try a step with; it is of no use afterwards.
    batch : tuple of Tensor
        For that.
    progress : callable, optional
        Called with (what is being done, done, of how many).
    """
    large = largest_tensor(net, tasks[0].objective, batch) >= LARGE
    count = torch.get_num_threads() if large else 1
    cores = cpu_count()
    # A process that is itself one of several has no cores to give away.
    if together is None and len(tasks) > 1 and cores > 1 and parent_process() is None:
        payload = packed(tasks)
        if payload is not None:
            # One thread, also if it is all done here: the numbers are the same either way.
            count = 1
            if _seconds(tasks, net, batch) > WORTH:
                return in_processes(tasks, payload, cores, progress)
    return in_turn(tasks, count, progress)


def _seconds(tasks: Sequence[Task], net: SoftmaxNet, batch: Batch) -> float:
    """About how long these units take one by one, with one thread."""
    with threads(1), torch.random.fork_rng(devices=[]):
        trial = Learner([net], tasks[0].objective, (0,), tasks[0].descent)
        trial.learn(0, batch, True)
        start = time.perf_counter()
        trial.learn(1, batch, True)
        took = time.perf_counter() - start
    return took * sum(task.steps for task in tasks)
