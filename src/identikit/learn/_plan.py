"""Choose how to train the seeds: as a stack, in processes, or one by one."""

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

#: If all tensors of a step are smaller than this, most of its time goes into calling operations,
#: which a stack saves; larger tensors fill the cache on their own, and a stack would overflow it.
SMALL = 2**16
#: Below this size a second thread costs more in waiting than it gains: it was up to 15 times slower
#: on a busy machine, against 1.7 times faster on an idle one.
LARGE = 2**20
#: Seconds of training above which it is worth starting processes.
WORTH = 20.0


def stacked(
    together: bool | None, seeds: int, net: SoftmaxNet, objective: Objective, batch: Batch
) -> bool:
    """Whether to train the seeds as one stack; the choice depends only on sizes, not on timing.

    `together` is the caller's wish, if there is one.
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
    """Train the units in the quickest way, in processes only if `together` is None.

    `net` and `batch` are used to try a step; the network is of no use afterwards.
    """
    large = largest_tensor(net, tasks[0].objective, batch) >= LARGE
    count = torch.get_num_threads() if large else 1
    cores = cpu_count()
    # A process that is itself a worker has no cores to spare.
    if together is None and len(tasks) > 1 and cores > 1 and parent_process() is None:
        payload = packed(tasks)
        if payload is not None:
            # One thread, also without processes, so that the numbers are the same either way.
            count = 1
            if _seconds(tasks, net, batch) > WORTH:
                return in_processes(tasks, payload, cores, progress)
    return in_turn(tasks, count, progress)


def _seconds(tasks: Sequence[Task], net: SoftmaxNet, batch: Batch) -> float:
    """An estimate of the time that these units take one by one, with one thread."""
    with threads(1), torch.random.fork_rng(devices=[]):
        trial = Learner([net], tasks[0].objective, (0,), tasks[0].descent)
        trial.learn(0, batch, True)
        start = time.perf_counter()
        trial.learn(1, batch, True)
        took = time.perf_counter() - start
    return took * sum(task.steps for task in tasks)
