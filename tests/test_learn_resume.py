"""Trainings that are killed, interrupted, damaged, or spread over processes."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from multiprocessing import parent_process
from pathlib import Path
from typing import Any

import pytest

from conftest import HANGS
from identikit.errors import InputError

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402

from identikit.learn import (  # noqa: E402
    LSTM,
    MLP,
    Lookup,
    Run,
    SoftmaxNet,
    _units,
    autoregressive,
    fresh,
    shuffled,
    supervised,
    train,
    weight_shuffling,
)
from learning import data, one_thread, same  # noqa: E402, F401
from test_reizinger_weights import fitted, gap  # noqa: E402

pytestmark = pytest.mark.long


def classifier() -> SoftmaxNet:
    return SoftmaxNet(MLP([5, 16, 3]), Lookup(7, 3), bias=7)


def with_state() -> SoftmaxNet:
    """With a generator and running averages to get wrong."""
    inner = nn.Sequential(MLP([5, 16]), nn.BatchNorm1d(16), nn.Dropout(0.2), MLP([16, 3]))
    return SoftmaxNet(inner, Lookup(7, 3))


def recurrent() -> SoftmaxNet:
    print("a network that talks")
    return SoftmaxNet(LSTM(11, 6), Lookup(11, 6))


def jitter(batch: tuple[Tensor, ...], generator: torch.Generator) -> tuple[Tensor, ...]:
    return (batch[0] + 0.1 * torch.randn(batch[0].shape, generator=generator), *batch[1:])


def draw(rows: int, rng: Any) -> tuple[Tensor, ...]:
    x = torch.from_numpy(rng.normal(size=(rows, 5)).astype("float32"))
    return x, x.argmax(1)


def note() -> None:
    """Leave a note which process was here, and when; take some time where `child` asks for it."""
    if "IDENTIKIT_TEST_SEEN" in os.environ:
        Path(os.environ["IDENTIKIT_TEST_SEEN"], str(os.getpid())).touch()
    time.sleep(float(os.environ.get("IDENTIKIT_TEST_SLOWLY", "0")))


def watched(net: SoftmaxNet, tokens: Tensor) -> Tensor:
    note()
    return autoregressive(net, tokens)


def watched_labels(net: SoftmaxNet, x: Tensor, y: Tensor) -> Tensor:
    note()
    return supervised(net, x, y)


def tokens() -> Any:
    some = torch.Generator().manual_seed(1)
    return shuffled((torch.randint(11, (30, 9), generator=some),), 4)


def stack() -> partial[Run]:
    """Seeds that stop at different steps, in one stack."""
    x, y = data(256)
    return partial(
        train,
        classifier,
        watched_labels,
        shuffled((x[:64], y[:64]), 32, jitter),
        400,
        seeds=(3, 0, 1, 8),
        lr=0.02,
        validation=(x[64:], y[64:]),
        validate_every=13,
        patience=4,
        snapshots=(0, 50, 170, 399),
        together=True,
    )


def alone() -> partial[Run]:
    """One by one, with state in the network."""
    return partial(
        train,
        with_state,
        watched_labels,
        fresh(draw, 32),
        150,
        seeds=(0, 5),
        weight_decay=0.1,
        snapshots=(0, 77),
        together=False,
    )


def spread() -> partial[Run]:
    """In two processes; see `processes`."""
    return partial(train, recurrent, watched, tokens(), 120, seeds=range(3), snapshots=(0,))


SETTINGS: dict[str, Callable[[], partial[Run]]] = {"stack": stack, "alone": alone, "spread": spread}


@pytest.fixture
def processes(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[], int]:
    """Two processes, however short the training; gives how many others `watched` was asked in."""
    seen = tmp_path_factory.mktemp("seen")
    monkeypatch.setenv("IDENTIKIT_TEST_SEEN", str(seen))
    monkeypatch.setattr(_units, "WORTH", 0.0)
    monkeypatch.setattr(_units, "cpu_count", lambda: 2)
    return lambda: len({path.name for path in seen.iterdir()} - {str(os.getpid())})


CHILD = """
import sys
sys.path.insert(0, {tests!r})
import torch
torch.set_num_threads(1)
import test_learn_resume as here

here._units.WORTH, here._units.cpu_count = 0.0, lambda: 2
call = here.SETTINGS[sys.argv[1]]()
call(folder=sys.argv[2], save_seconds=float(sys.argv[3]))
"""


def child(setting: str, folder: Path, save_seconds: float = 0.0) -> subprocess.Popen[bytes]:
    """A training in a process of its own, so slow that whoever looks at it has a turn."""
    script = CHILD.format(tests=str(Path(__file__).parent))
    seen = folder.with_suffix(".seen")
    seen.mkdir(exist_ok=True)
    slowly = {"IDENTIKIT_TEST_SEEN": str(seen), "IDENTIKIT_TEST_SLOWLY": "0.1"}
    return subprocess.Popen(
        [sys.executable, "-c", script, setting, str(folder), str(save_seconds)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **slowly},
    )


def begun(folder: Path) -> bool:
    """Whether a step is under way: a loss was asked for after the first snapshot."""
    first, notes = (
        [path.stat().st_mtime_ns for path in where.glob(pattern)]
        for where, pattern in ((folder, "*.step_0.*"), (folder.with_suffix(".seen"), "*"))
    )
    return bool(first) and max(notes, default=0) > min(first)


def step_of(folder: Path) -> int:
    """How many steps the units in a folder have made that were saved."""
    from safetensors import safe_open

    total = 0
    for path in folder.glob("*.safetensors"):
        if ".step_" not in path.name:
            with safe_open(path, framework="pt") as file:
                total += json.loads(file.metadata()["identikit"])["step"]
    return total


def until(condition: Callable[[], bool]) -> None:
    start = time.monotonic()
    while not condition():
        assert time.monotonic() - start < HANGS, "nothing happened"
        time.sleep(0.005)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize(
    "setting", ["alone", *(pytest.param(s, marks=pytest.mark.slow) for s in ("stack", "spread"))]
)
def test_stopped_it_goes_on_and_ends_the_same(
    setting: str, tmp_path: Path, seed: int, processes: Callable[[], int]
) -> None:
    """Once by Ctrl-C, once by SIGKILL at a random moment."""
    folder, when = tmp_path / "run", random.Random(seed)
    # No checkpoint is due.
    process = child(setting, folder, save_seconds=1e9)
    until(lambda: begun(folder))
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=HANGS)
    assert errors.decode().strip().endswith("KeyboardInterrupt"), errors.decode()
    before = step_of(folder)
    assert before > 0

    process = child(setting, folder, save_seconds=0.0)
    until(lambda: step_of(folder) > before)
    time.sleep(when.random() * 0.1)
    workers = children(process.pid)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL, "it was over before it was killed"
    assert len(workers) >= 2 if setting == "spread" else not workers
    until(lambda: not any(map(parent, workers)))

    whole = SETTINGS[setting]()
    steps = step_of(folder)
    resumed = whole(folder=folder)
    assert bool(processes()) == (setting == "spread")
    assert before < steps < step_of(folder)
    # Of what processes train, one by one is the same but for the last digits.
    same(resumed, whole() if setting == "stack" else whole(together=False), tol=1e-3)
    # Finished, it is read and not trained again; nothing half written is left.
    told: list[str] = []
    same(resumed, whole(folder=folder, progress=lambda what, _done, _of: told.append(what)))
    assert set(told) <= {"training"}
    assert not [path for path in folder.iterdir() if path.name.startswith(".")]


def parent(pid: int) -> int | None:
    """The parent of a process that has not ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[1])


def children(pid: int) -> list[int]:
    names = [path.name for path in Path("/proc").iterdir()]
    return [int(name) for name in names if name.isdigit() and parent(int(name)) == pid]


def test_killed_when_all_seeds_have_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But before the snapshots of later steps are written."""
    call = partial(stack(), patience=1, save_seconds=0.0)
    with monkeypatch.context() as patch:
        patch.setattr(_units.Fit, "_finish", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            call(folder=tmp_path)
    whole = call()
    assert whole.history.step.max() < 399
    same(call(folder=tmp_path), whole)


@pytest.mark.usefixtures("interruptible")
def test_a_second_interrupt_does_not_wait(tmp_path: Path) -> None:
    """As when one step takes very long."""
    called: list[int] = []

    def slow(net: SoftmaxNet, *batch: Tensor) -> Tensor:
        called.append(1)
        if len(called) > 5:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
        return supervised(net, *batch)

    with pytest.raises(KeyboardInterrupt):
        train(classifier, slow, shuffled(data(256), 32), 50, folder=tmp_path)
    assert not (tmp_path / "seed_0.safetensors").exists()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


# Damage, and folders of something else


def small(folder: Path, **changes: Any) -> Run:
    arguments: dict[str, Any] = {
        "build": classifier,
        "objective": supervised,
        "batches": shuffled(data(256), 32),
        "steps": 12,
        "seeds": (0, 1),
        "snapshots": (4,),
        "together": False,
        "validation": data(256),
        "tag": "small",
    }
    return train(**{**arguments, **changes}, folder=folder)


@pytest.mark.parametrize("name", ["seed_1.safetensors", "seed_1.step_4.safetensors"])
def test_a_checkpoint_cut_in_half_is_said_and_done_again(tmp_path: Path, name: str) -> None:
    whole = small(tmp_path)
    path = tmp_path / name
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.warns(
        UserWarning, match=f"{name} is damaged .*the training of seed_1 starts again"
    ):
        again = small(tmp_path)
    same(whole, again)
    same(whole, small(tmp_path))


def test_a_snapshot_that_is_gone_is_done_again(tmp_path: Path) -> None:
    whole = small(tmp_path)
    (tmp_path / "seed_0.step_4.safetensors").unlink()
    with pytest.warns(UserWarning, match=r"seed_0.step_4.safetensors is missing; .*again"):
        same(whole, small(tmp_path))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"steps": 13, "snapshots": (4, 12)},
            r"steps was 12 and is now 13; snapshots was \[4, 12\] and is now",
        ),
        ({"lr": 0.1}, "lr was 0.001 and is now 0.1"),
        ({"tag": "large"}, 'tag was "small" and is now "large"'),
        ({"seeds": range(3)}, r"seeds was \[0, 1\] and is now \[0, 1, 2\]"),
        (
            {"build": partial(SoftmaxNet, MLP([5, 3]), Lookup(7, 3))},
            "parameters was 175 and is now 39; first",
        ),
        ({"batches": shuffled(data(256), 16)}, "first batch was"),
        ({"validation": None}, "validation was .* and is now null"),
        ({"together": True}, "together was false and is now true"),
        (
            {"objective": partial(supervised)},
            r'objective was "supervised" and is now "supervised\(\)',
        ),
    ],
)
def test_a_folder_of_other_settings_is_refused(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    small(tmp_path)
    with pytest.raises(InputError, match=f"different settings: .*{message}.*give another folder"):
        small(tmp_path, **changes)
    assert small(tmp_path, save_seconds=1.0).steps == 12


def test_what_a_partial_objective_was_given_counts(tmp_path: Path) -> None:
    def scaled(net: SoftmaxNet, x: Tensor, y: Tensor, scale: Tensor, power: int) -> Tensor:
        return scale * supervised(net, x, y) ** power

    small(tmp_path, objective=partial(scaled, scale=torch.tensor(2.0), power=1))
    small(tmp_path, objective=partial(scaled, scale=torch.tensor(2.0), power=1))
    for scale, power in [(3.0, 1), (2.0, 2)]:
        with pytest.raises(InputError, match=r"objective was .* and is now "):
            small(tmp_path, objective=partial(scaled, scale=torch.tensor(scale), power=power))


def test_a_file_of_another_training_is_refused(tmp_path: Path) -> None:
    small(tmp_path / "a")
    small(tmp_path / "b", lr=0.1)
    (tmp_path / "b" / "seed_0.safetensors").replace(tmp_path / "a" / "seed_0.safetensors")
    with pytest.raises(
        InputError, match=r"seed_0.safetensors belongs to a training with other settings"
    ):
        small(tmp_path / "a")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "run.json is damaged"),
        ("[]", "run.json is damaged"),
        ('{"seeds": 3}', "seeds was 3 and is now.*give another folder"),
    ],
)
def test_a_record_that_is_none(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(InputError, match=message):
        small(tmp_path)


def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder, message in (("file", "file is a file; give another"), ("file/a", "cannot write")):
        with pytest.raises(InputError, match=message):
            small(tmp_path / folder)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_a_checkpoint_keeps_the_type_of_the_numbers(tmp_path: Path, dtype: torch.dtype) -> None:
    def build() -> SoftmaxNet:
        return classifier().to(dtype)

    x, y = data(256)
    call = partial(
        small, tmp_path, build=build, batches=shuffled((x.to(dtype), y), 32), validation=None
    )
    weights = call().weights[12]["f.layers.0.weight"]
    read = call().weights[12]["f.layers.0.weight"]
    assert read.dtype is weights.dtype is dtype
    assert torch.equal(read, weights)


def test_a_stack_stays_a_stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was chosen when a training began holds, whatever this machine would choose."""
    whole = small(tmp_path, together=None)
    assert (tmp_path / "stack.safetensors").exists()
    monkeypatch.setattr(_units, "SMALL", 0)
    same(whole, small(tmp_path, together=None))
    small(tmp_path / "other", together=None)
    assert (tmp_path / "other" / "seed_1.safetensors").exists()


# Processes


def explosive(net: SoftmaxNet, tokens: Tensor) -> Tensor:
    loss = watched(net, tokens)
    return loss * torch.inf if parent_process() else loss


def raising(net: SoftmaxNet, tokens: Tensor) -> Tensor:
    if parent_process():
        raise ZeroDivisionError("a fault of the objective")
    return autoregressive(net, tokens)


def deadly(net: SoftmaxNet, tokens: Tensor) -> Tensor:
    if parent_process():
        os.kill(os.getpid(), signal.SIGKILL)
    return autoregressive(net, tokens)


def test_processes_tell_and_need_no_folder(processes: Callable[[], int]) -> None:
    told: list[tuple[int, int]] = []
    call = partial(train, recurrent, watched, tokens(), 6, seeds=range(3), snapshots=(0, 2))
    run = call(progress=lambda _what, done, of: told.append((done, of)))
    assert 1 <= processes() <= 2
    same(run, call(together=False), tol=1e-4)
    assert told[-1] == (18, 18)
    assert told == sorted(told)


@pytest.mark.parametrize(
    ("objective", "kind", "message"),
    [
        pytest.param(
            explosive,
            InputError,
            "the loss of seed [01] is inf at step 0; try a smaller",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            raising,
            ZeroDivisionError,
            "a fault of the objective",
            marks=pytest.mark.slow,
        ),
        (deadly, RuntimeError, "ended from outside, perhaps for lack of memory; train again"),
    ],
)
@pytest.mark.usefixtures("processes")
def test_what_fails_in_a_process_is_raised_here(
    objective: Any, kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        train(recurrent, objective, tokens(), 3, seeds=range(2))


def test_what_cannot_be_sent_is_trained_here(processes: Callable[[], int]) -> None:
    call = partial(train, objective=watched, batches=tokens(), steps=2, seeds=range(2))
    here = call(lambda: recurrent())
    same(here, call(recurrent, together=False), tol=1e-4)
    # A function of the script itself has a name that means something else over there.
    recurrent.__module__, before = "__main__", recurrent.__module__
    sys.modules["__main__"].recurrent, kept = recurrent, vars(sys.modules["__main__"])  # type: ignore[attr-defined]
    try:
        call(recurrent)
    finally:
        recurrent.__module__ = before
        del kept["recurrent"]
    assert processes() == 0


def test_short_trainings_start_no_process(
    processes: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_units, "WORTH", 20.0)
    train(recurrent, watched, tokens(), 2, seeds=range(2))
    assert processes() == 0


@pytest.mark.slow
def test_processes_give_the_same_numbers_after_kicks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_units, "WORTH", 0.0)
    monkeypatch.setattr(_units, "cpu_count", lambda: 2)
    monkeypatch.setattr(_units, "SMALL", 0)
    kick = weight_shuffling(0.3, 0.5)
    assert gap(fitted(after_step=kick), fitted(after_step=kick, together=False)) == 0
