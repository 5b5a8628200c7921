"""Engines: whoever reads the rows, and in whatever order, the moments are the same."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from itertools import permutations
from math import ceil, log2
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import close
from engine_views import Heavy, Recipe, fail, pid_of, slowly, threads
from identikit.errors import InputError, MissingExtraError
from identikit.moments import Moments, Part, StackLayout, accumulate
from identikit.moments.engines import (
    Dask,
    LostError,
    Pool,
    cores,
    engine_for,
)
from identikit.moments.engines._engine import add_up, travels
from identikit.sources import NpyWriter
from identikit.studies import Data, Settings, Work, run
from study_units import square, toy

ROWS = 8000


@pytest.fixture(scope="module")
def pool() -> Iterator[Pool]:
    with Pool(2) as engine:
        yield engine


@pytest.fixture(scope="module")
def dask() -> Iterator[Dask]:
    pytest.importorskip("distributed")
    with Dask(workers=2) as engine:
        yield engine


@pytest.fixture(params=["pool", pytest.param("dask", marks=pytest.mark.extra("dask"))])
def engine(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


@pytest.fixture
def views(rng: np.random.Generator) -> list[np.ndarray]:
    """One with a huge mean and a column that hardly varies, one in float32."""
    x = rng.normal(size=(ROWS, 5))
    y = x @ rng.normal(size=(5, 3)) + 0.3 * rng.normal(size=(ROWS, 3))
    x[:, 1] += 1e4
    x[:, 2] = 7 + 1e-4 * x[:, 2]
    return [x, y.astype(np.float32)]


def same(found: Moments, expected: Moments, tol: float = 1e-10) -> None:
    """Raise unless two moments are equal to rounding, relative to their scale."""
    assert (found.names, found.eps, found.widths) == (expected.names, expected.eps, expected.widths)
    assert [part.count for part in found.parts] == [part.count for part in expected.parts]
    assert found.dropped == expected.dropped
    np.testing.assert_array_equal(found.sample.keys, expected.sample.keys)
    np.testing.assert_array_equal(found.sample.rows, expected.sample.rows)
    for part, other in zip(found.parts, expected.parts):
        squares, fourth = np.diagonal(other.scatter).max(), other.quartic.max()
        close(part.mean, other.mean, tol, np.abs(other.mean).max())
        close(part.scatter, other.scatter, tol, squares)
        close(part.cubic, other.cubic, tol, np.sqrt(fourth * squares))  # which bounds it
        close(part.quartic, other.quartic, tol, fourth)


# Which results are added to which


class Bracketed:
    """What was added to what, in brackets, and how many there are at a time."""

    alive = most = 0

    def __init__(self, text: str) -> None:
        self.text = text
        Bracketed.alive += 1
        Bracketed.most = max(Bracketed.most, Bracketed.alive)

    def __add__(self, other: Bracketed) -> Bracketed:
        Bracketed.alive -= 2
        return Bracketed(f"({self.text}{other.text})")


def nested(count: int, order: Sequence[int]) -> tuple[str, int]:
    """What is added to what, and how many results were there at most."""
    Bracketed.alive = Bracketed.most = 0
    total = add_up(count, ((number, Bracketed(str(number))) for number in order))
    return total.text, Bracketed.most


@pytest.mark.parametrize(
    ("count", "root"),
    [(1, "0"), (2, "(01)"), (3, "((01)2)"), (5, "(((01)(23))4)"), (6, "(((01)(23))(45))")],
)
def test_a_tree_is_the_same_in_every_order(count: int, root: str):
    assert {nested(count, order)[0] for order in permutations(range(count))} == {root}


@pytest.mark.parametrize("count", [64, 100, 1000])
def test_few_results_wait_if_they_come_in_order(count: int):
    assert nested(count, range(count))[1] <= ceil(log2(count)) + 1


# Any number of workers, any blocks, any order


class Shuffled:
    """An engine in this process whose workers are done in a given order."""

    def __init__(self, workers: int, seed: int) -> None:
        self.workers, self._rng, self.items = workers, np.random.default_rng(seed), 0

    def reduce(self, task: Any, views: Any, items: Any, done: Callable[[int], None]) -> Any:
        self.items += len(items)

        def results() -> Iterator[tuple[int, Any]]:
            for number in map(int, self._rng.permutation(len(items))):
                # As if they had travelled there and back.
                item, sent = pickle.loads(pickle.dumps((items[number], views)))
                yield number, pickle.loads(pickle.dumps(task(sent, item)))
                done(number)

        return add_up(len(items), results())

    def map(self, task: Any, items: Any) -> Any:
        raise NotImplementedError

    def forget(self) -> None:
        self.forgotten = True

    def close(self) -> None:
        raise AssertionError("it was not started there")


@settings(max_examples=40)
@given(data=st.data())
def test_the_moments_do_not_depend_on_who_has_read_what(data: st.DataObject):
    times = data.draw(st.sampled_from([1, 128]))
    rows, block = times * data.draw(st.integers(5, 120)), times * data.draw(st.integers(1, 70))
    workers = data.draw(st.integers(1, 9))
    seed = data.draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 3)) * [1, 1e-4, 1] + [0, 7, 1e4]
    y = (x @ rng.normal(size=(3, 2)) + rng.normal(size=(rows, 2))).astype(np.float32)
    options: dict[str, Any] = {"folds": data.draw(st.integers(1, 5)), "sample": 20, "seed": 3}
    if data.draw(st.booleans()):
        options["groups"] = rng.integers(0, 5, size=rows)
        options["folds"] = min(options["folds"], len(np.unique(options["groups"])))
    if data.draw(st.booleans()):
        x[rng.integers(rows)] = np.nan
        options["drop_nonfinite"] = True
    heard: list[int] = []
    engine = Shuffled(workers, seed)
    found = accumulate(
        [x, y],
        block_rows=block,
        engine=engine,
        progress=lambda _what, done, _of: heard.append(done),
        **options,
    )
    same(found, accumulate([x, y], **options))
    assert (engine.items > 1) == (rows > 1024)  # ranges of rows start at multiples of it
    assert engine.forgotten
    assert heard == sorted(heard)
    assert heard[-1] == rows


# The same from real workers


@pytest.mark.parametrize("kind", ["arrays", "paths", "recipe"])
def test_workers_give_what_one_process_gives(
    engine: Any, views: list[np.ndarray], tmp_path: Path, kind: str
):
    x, y = views
    given: list[Any] = [x, y]
    if kind == "paths":
        np.save(tmp_path / "x.npy", np.asfortranarray(x))
        np.savez(tmp_path / "y.npz", other=x, y=y)
        given = [tmp_path / "x.npy", f"{tmp_path / 'y.npz'}::y"]
    if kind == "recipe":
        np.save(tmp_path / "x.npy", x)
        given = [Recipe(str(tmp_path / "x.npy")), np.asfortranarray(y)[:, ::-1][:, ::-1]]
    heard: list[int] = []
    found = accumulate(
        given, names=["x", "y"], engine=engine, progress=lambda _what, done, _of: heard.append(done)
    )
    same(found, accumulate([x, y], names=["x", "y"]))
    assert heard == sorted(heard)
    assert heard[-1] == ROWS
    assert len(heard) == 8  # ranges: four a worker, of whole chunks


@pytest.mark.extra("dask")
def test_a_pool_and_dask_agree_to_the_last_digit(pool: Pool, dask: Dask, views: list[np.ndarray]):
    same(accumulate(views, engine=pool), accumulate(views, engine=dask), tol=0)


def test_groups_and_dropped_rows(engine: Any, views: list[np.ndarray], rng: np.random.Generator):
    views[1][[3, 5000, 5001], 2] = [np.nan, np.inf, np.nan]
    options: dict[str, Any] = {
        "groups": rng.integers(0, 40, size=ROWS),
        "drop_nonfinite": True,
        "block_rows": 700,
    }
    found = accumulate(views, engine=engine, **options)
    same(found, accumulate(views, **options))
    assert found.dropped == 3


def test_a_nan_is_told_as_one_process_tells_it(engine: Any, views: list[np.ndarray]):
    views[1][4321, 1] = np.nan
    with pytest.raises(InputError, match="the first is row 4321") as alone:
        accumulate(views)
    with pytest.raises(InputError) as together:
        accumulate(views, engine=engine)
    assert str(together.value) == str(alone.value)


class OnlyHere(Recipe):
    """A view that cannot be pickled, so that its rows are sent; it counts how often."""

    def __init__(self, rows: np.ndarray) -> None:
        object.__setattr__(self, "view", rows)
        object.__setattr__(self, "last_row_read", 0)

    def happens(self, start: int, stop: int) -> None:
        if start < ROWS <= stop:
            object.__setattr__(self, "last_row_read", self.last_row_read + 1)

    def __reduce__(self) -> str:
        raise TypeError("it stays here")


def test_an_ill_conditioned_view_is_read_twice_and_sent_once(engine: Any, rng: np.random.Generator):
    mixing = rng.normal(size=(4, 4))
    x = rng.normal(size=(ROWS, 4)) * [1, 1e-3, 1e-6, 1e-9] @ mixing
    y = rng.normal(size=(ROWS, 2)) + x[:, :2]
    counted = [OnlyHere(x), OnlyHere(y)]
    found, expected = accumulate(counted, engine=engine), accumulate([x, y])
    assert found.layout.roots is not None
    assert [view.last_row_read for view in counted] == [1, 1]
    assert found.rows == ROWS
    for i in (0, 1):
        for j in (0, 1):
            block = expected.block(i, j)
            close(found.block(i, j), block, 1e-10, np.abs(block).max())
    # The smallest directions too, which the scatter in the view's own coordinates cannot hold.
    close(found.coherence(0, 0), np.eye(4), 1e-10)
    whitened = (x - x.mean(axis=0)) @ found.whitening_map(0)
    close(whitened.T @ whitened, np.eye(4), 1e-6)


@pytest.mark.extra("torch")
def test_tensors_of_half_precision_travel(engine: Any, rng: np.random.Generator):
    torch = pytest.importorskip("torch")
    half = torch.asarray(rng.normal(size=(3000, 4))).to(torch.bfloat16)
    same(accumulate([half], engine=engine), accumulate([half]))


def test_a_pool_sends_a_large_recipe_in_a_file(rng: np.random.Generator, tmp_path: Path):
    """More than a megabyte, but far less than its rows."""
    rows = rng.normal(size=(ROWS, 140))
    np.save(tmp_path / "x.npy", rows)
    recipe = Heavy(str(tmp_path / "x.npy"), bytes(1_100_000))
    assert travels(recipe)
    with Pool(2) as engine:
        same(accumulate([recipe], engine=engine), accumulate([rows]))


def test_a_recipe_that_holds_its_rows_is_not_sent_again_and_again(tmp_path: Path):
    rows = np.zeros((30000, 9))
    np.save(tmp_path / "x.npy", rows)
    assert travels(Recipe(str(tmp_path / "x.npy")))
    assert travels(Recipe(rows[:10]))
    assert not travels(Recipe(rows))
    assert not travels(Recipe(lambda: None))
    assert not travels(rows)


def test_an_empty_part_travels_as_nothing():
    layout = StackLayout((300, 200))
    empty = Part.empty(layout)
    sent = pickle.dumps(empty)
    assert len(sent) < 200
    back = pickle.loads(sent)
    assert back.count == 0
    for name in ("mean", "scatter", "cubic", "quartic"):
        np.testing.assert_array_equal(getattr(back, name), getattr(empty, name))


# Which engine is meant


@pytest.mark.parametrize("wrong", ["spark", "localhost:8786", 3])
def test_an_engine_that_there_is_not(wrong: object):
    with pytest.raises(
        InputError, match=f"there is no engine {wrong!r}; expected 'single', 'pool'"
    ):
        accumulate([np.eye(3)], engine=wrong)  # type: ignore[arg-type]


def test_engines_by_name(monkeypatch: pytest.MonkeyPatch):
    for name in (None, "single"):
        with engine_for(name) as engine:
            assert engine is None
    closed: list[Pool] = []
    monkeypatch.setattr(Pool, "close", lambda engine: closed.append(engine))
    with engine_for("pool") as engine:
        assert isinstance(engine, Pool)
    assert closed == [engine]
    own = Shuffled(2, 0)
    with engine_for(own) as engine:  # its close() would raise
        assert engine is own


@pytest.mark.extra("dask")
def test_a_scheduler_s_address_and_a_client(dask: Dask, views: list[np.ndarray]):
    distributed = pytest.importorskip("distributed")
    expected = accumulate(views)
    same(accumulate(views, engine=dask.address), expected)
    with distributed.Client(dask.address, set_as_default=False) as client:
        same(accumulate(views, engine=client), expected)
        with engine_for(client) as engine:
            assert isinstance(engine, Dask)
            assert engine.workers == 2
        assert client.status == "running"
    with pytest.raises(InputError, match="the Dask client that was given is closed; give one"):
        accumulate(views, engine=client)


def test_dask_is_an_extra(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingExtraError, match=r"the Dask engine needs .*identikit\[dask\]'"):
        accumulate([np.eye(3)], engine="dask")


def test_engines_without_workers_are_refused():
    with pytest.raises(InputError, match="a pool needs at least 1 worker; got workers=0"):
        Pool(0)
    pytest.importorskip("distributed")
    with pytest.raises(InputError, match="a cluster needs at least 1 worker; got workers=0"):
        Dask(workers=0)
    with pytest.raises(InputError, match="of the scheduler at tcp://a:1 is fixed; leave out work"):
        Dask("tcp://a:1", workers=2)


# Units of work


def test_map_gives_every_result_with_its_number(engine: Any):
    assert sorted(engine.map(abs, [-1, -2, 3])) == [(0, 1), (1, 2), (2, 3)]
    assert list(engine.map(abs, [])) == []
    pids = [pid for _, pid in engine.map(pid_of, range(6))]
    assert os.getpid() not in pids
    assert len(set(pids)) <= 2
    assert {most for _, most in engine.map(threads, range(4))} == {1}


@pytest.mark.parametrize(
    ("how", "error", "says"),
    [
        ("input", InputError, "the width is 0; give a larger one"),
        ("os", PermissionError, "this is not for you"),
        ("awkward", Exception, "1 and 2"),
    ],
)
def test_what_a_task_raises_is_raised_here(engine: Any, how: str, error: Any, says: str):
    with pytest.raises(error, match=says) as caught:
        dict(engine.map(fail, ["fine", how, "fine"]))
    assert not isinstance(caught.value, LostError)
    if isinstance(engine, Pool) and how != "input":
        said = "".join(getattr(caught.value, "__notes__", [])) + str(caught.value)
        assert "engine_views.py" in said
    assert dict(engine.map(fail, ["fine"])) == {0: "fine"}


def test_results_that_only_workers_know_how_to_make_come_back(engine: Any):
    assert dict(engine.map(fail, ["lambda"]))[0]() == "from a worker"


def test_whoever_stops_listening_gets_no_old_answers(engine: Any):
    waits = [0.01, 0.5, 0.5, 0.5]
    answers = engine.map(slowly, waits)
    place, waited = next(answers)
    assert waited == waits[place]
    assert sorted(engine.map(abs, [-1, -2])) == [(0, 1), (1, 2)]
    answers.close()
    assert sorted(engine.map(abs, [-3])) == [(0, 3)]


def test_an_array_that_has_changed_is_sent_again(engine: Any, views: list[np.ndarray]):
    first = accumulate(views, engine=engine)
    views[0] += 1
    second = accumulate(views, engine=engine)
    same(second, accumulate(views))
    close(second.centre(0), first.centre(0) + 1, 1e-12, 1e4)


def test_a_pool_can_be_used_after_it_was_closed(views: list[np.ndarray]):
    def path_of(views: list[str], _item: object) -> list[str]:
        assert Path(views[0]).exists()
        return views

    def sent() -> str:
        return engine.reduce(path_of, [views[0]], [(None, 0, ROWS)], lambda _: None)[0]

    with Pool(1) as engine:
        assert list(engine.map(abs, [-1])) == [(0, 1)]
        first = sent()
        assert sent() == first
        with engine_for(engine):
            pass
        assert not Path(first).parent.exists()
        second = sent()
    assert not Path(second).parent.exists()
    engine.close()
    assert list(engine.map(abs, [-2])) == [(0, 2)]
    engine.close()


def test_a_full_disk_is_said(views: list[np.ndarray], monkeypatch: pytest.MonkeyPatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(NpyWriter, "append", full)
    with (
        Pool(1) as engine,
        pytest.raises(InputError, match=r"8000 rows and 5 columns .*No space left.*set TMPDIR"),
    ):
        accumulate([views[0]], engine=engine)


def test_a_pool_leaves_the_warning_filters_alone():
    before = list(warnings.filters)
    with Pool(1) as pool:
        assert list(pool.map(abs, [-3])) == [(0, 3)]
    assert warnings.filters == before


@pytest.mark.extra("dask")
def test_a_study_s_units_on_dask(dask: Dask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    Path("out/units").mkdir(parents=True)
    diary = tmp_path / "diary"
    work = Work(Path("out"), Settings({}), Data(), "d", engine=dask)
    found = work.each("seed={}", square, range(3), processes=True, diary=str(diary))
    here = Work(Path("out"), Settings({}), Data(), "d", engine=None)
    assert [r.rows for r in found] == [r.rows for r in here.each("here={}", square, range(3))]
    pids = {int(line.split()[1]) for line in diary.read_text().splitlines()}
    assert len(pids) <= 2
    assert os.getpid() not in pids


@pytest.mark.extra("dask")
def test_a_study_is_run_by_the_engine_that_is_given(dask: Dask, tmp_path: Path):
    pids: dict[str, set[int]] = {}
    for name, engine in {"here": "single", "dask": dask, "by default": None}.items():
        diary = tmp_path / name
        study = toy(processes=True, diary=str(diary))
        result = run(study, folder=tmp_path / f"{name} out", engine=engine)
        assert result.tables["squares"]["value"].tolist() == [0, 1, 4]
        pids[name] = {int(line.split()[1]) for line in diary.read_text().splitlines()}
    assert pids["here"] == {os.getpid()}
    assert os.getpid() not in pids["dask"]
    assert not pids["dask"] & pids["by default"]
    assert (os.getpid() in pids["by default"]) == (cores() == 1)


WITHOUT_IDENTIKIT = """
import sys
class Without:
    def find_spec(name, *_):
        if name.split(".")[0] == "identikit":
            raise ModuleNotFoundError(f"No module named {name!r}")
sys.meta_path.insert(0, Without)
import logging
from distributed import LocalCluster
cluster = LocalCluster(
    1, processes=False, protocol="tcp://", dashboard_address=None, silence_logs=logging.CRITICAL,
    scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
)
print(cluster.scheduler_address, flush=True)
sys.stdin.read()
"""


@pytest.mark.extra("dask")
def test_a_cluster_without_identikit_is_told_what_it_needs(dask: Dask, tmp_path: Path):
    with pytest.raises(InputError, match="could not run this: No module named 'identikit'; its"):
        dict(dask.map(fail, ["import"]))
    command = [sys.executable, "-c", WITHOUT_IDENTIKIT]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        with pytest.raises(InputError, match=f"{address} could not run this: .*this version of id"):
            accumulate([np.eye(3)], engine=address)
        process.kill()
