"""Dask arrays and data frames as views: read block by block, here and by workers."""

from __future__ import annotations

import logging
import pickle
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from engine_views import Recipe
from identikit.errors import InputError
from identikit.moments import accumulate
from identikit.moments.engines import Dask, Pool
from identikit.moments.engines._engine import travels
from identikit.sources import open_source
from identikit.sources.checks import BFLOAT16_EPS
from test_engines import same

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
distributed = pytest.importorskip("distributed")

pytestmark = pytest.mark.extra("dask")

ROWS = 3000


@pytest.fixture(autouse=True)
def lists_stay_lists() -> Iterator[None]:
    """Dask would turn columns of objects into columns of text."""
    with dask.config.set({"dataframe.convert-string": False}):
        yield


@pytest.fixture
def array(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=(ROWS, 5)).astype(np.float32)


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Of a cluster in this process, which is quick to start."""
    with (
        dask.config.set({"temporary-directory": str(tmp_path_factory.mktemp("dask"))}),
        distributed.LocalCluster(
            2,
            threads_per_worker=1,
            processes=False,
            dashboard_address=None,
            scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
            silence_logs=logging.CRITICAL,
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


def frame(array: np.ndarray) -> Any:
    return pd.DataFrame(array, columns=list("abcde"))


FORMS = {
    "chunks anywhere": lambda x: da.from_array(x, chunks=((700, 1, 2299), (2, 3))),
    "one chunk": lambda x: da.from_array(x, chunks=-1),
    "unknown chunks": lambda x: da.from_array(x, chunks=(900, 3))[da.arange(ROWS, chunks=900) >= 0],
    "empty chunks": lambda x: da.concatenate([da.from_array(x)[:0], da.from_array(x, 1000)]),
    "columns": lambda x: dd.from_pandas(frame(x), npartitions=4),
    "nullable columns": lambda x: dd.from_pandas(frame(x).astype("Float32"), npartitions=2),
    "empty partitions": lambda x: dd.concat(
        [dd.from_pandas(frame(x)[:0], npartitions=1), dd.from_pandas(frame(x), npartitions=2)]
    ),
    "lists": lambda x: dd.from_pandas(pd.DataFrame({"embedding": list(x)}), npartitions=3),
    "arrow lists": lambda x: dd.from_pandas(
        pd.DataFrame(
            {"embedding": pd.Series(list(x), dtype=pd.ArrowDtype(pa.list_(pa.float32(), 5)))}
        ),
        npartitions=3,
    ),
    "series of lists": lambda x: dd.from_pandas(pd.Series(list(x), name="e"), npartitions=3),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("sent", [False, True])
def test_rows_are_those_of_the_collection(array: np.ndarray, form: str, sent: bool):
    array[17, 2] = np.nan
    source = open_source(FORMS[form](array), "x")
    if sent:
        source = open_source(pickle.loads(pickle.dumps(source.origin)), "x")
    assert (source.name, source.rows, source.width) == ("x", ROWS, 5)
    assert source.eps == np.finfo(np.float32).eps
    for start, stop in [(0, ROWS), (699, 702), (700, 701), (2999, 4000), (5, 5), (0, 1), (100, 90)]:
        block = source.read(start, stop)
        assert block.dtype == np.float32
        np.testing.assert_array_equal(block, array[start:stop])
    source.close()
    np.testing.assert_array_equal(source.read(10, 20), array[10:20])


def test_a_block_is_computed_once_as_rows_are_read_in_order():
    computed = []

    def block(number: int) -> np.ndarray:
        computed.append(number)
        return np.full((100, 2), number)

    parts = [da.from_delayed(dask.delayed(block)(n), (100, 2), np.int64) for n in range(3)]
    source = open_source(da.concatenate(parts))
    assert computed == []
    for start in range(0, 300, 30):
        source.read(start, start + 30)
    assert computed == [0, 1, 2]


def test_bfloat16_comes_as_float32(array: np.ndarray):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    half = array.astype(ml_dtypes.bfloat16)
    source = open_source(da.from_array(half, chunks=1000))
    assert source.eps == BFLOAT16_EPS
    np.testing.assert_array_equal(source.read(5, 9), half[5:9].astype(np.float32))
    assert source.read(5, 9).dtype == np.float32


def test_only_what_dask_has_loaded_is_looked_at():
    code = (
        "import sys, identikit as ik, numpy as np; ik.accumulate([np.eye(9)]); "
        "print('dask' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


# Whoever reads them


@pytest.mark.parametrize("form", ["chunks anywhere", "columns", "lists"])
def test_views_of_dask_give_the_same_moments(
    array: np.ndarray, rng: np.random.Generator, form: str, client: Any
):
    other = rng.normal(size=(ROWS, 2)) + array[:, :2]
    expected = accumulate([array, other])
    views = [FORMS[form](array), other]
    same(accumulate(views), expected)
    with Pool(1) as pool:
        same(accumulate(views, engine=pool), expected)
    same(accumulate(views, engine=client), expected)


@pytest.mark.parametrize("form", ["chunks anywhere", "unknown chunks", "columns", "lists"])
def test_what_lies_on_a_cluster_stays_there(
    array: np.ndarray, form: str, client: Any, monkeypatch: pytest.MonkeyPatch
):
    expected = accumulate([array])
    (persisted,) = client.persist([FORMS[form](array)])
    same(accumulate([persisted]), expected)
    with Pool(1) as pool:
        same(accumulate([persisted], engine=pool), expected)
    with Dask(client) as engine:
        monkeypatch.setattr(engine, "_scatter", None)  # nothing is sent from here
        same(accumulate([persisted], engine=engine), expected)
        same(accumulate([persisted, 2 * persisted], engine=engine), accumulate([array, 2 * array]))
    # A recipe around it cannot be sent either, but can be read here.
    assert not travels(Recipe(open_source(persisted).origin))


def test_what_lies_on_another_cluster_is_refused(array: np.ndarray, client: Any):
    (persisted,) = client.persist([da.from_array(array, chunks=1000)])
    with (
        distributed.Client(client.scheduler.address, set_as_default=False) as another,
        pytest.raises(InputError, match=r"is on the Dask cluster at .*the client that persisted"),
    ):
        accumulate([persisted], engine=another)


def test_rows_in_a_graph_are_not_sent_with_every_item(array: np.ndarray):
    large = da.from_array(np.zeros((40000, 5)), chunks=1000)
    assert not travels(open_source(large).origin)
    assert travels(open_source(da.zeros((40000, 5), chunks=1000)).origin)


# What is no view


@pytest.mark.parametrize(
    ("view", "says"),
    [
        (lambda: da.zeros(5), r"view 'x' is 1-D, of shape \(5,\); expected rows × columns"),
        (lambda: da.zeros((5, 2, 2)), "view 'x' is 3-D, of shape"),
        (lambda: da.zeros((0, 3)), "view 'x' has no rows"),
        (lambda: da.zeros((5, 3), dtype=complex), "view 'x' has dtype complex128; expected real"),
        (lambda: da.eye(4)[:, da.eye(4)[0] > 0], "number of columns is unknown; call its compute"),
        (lambda: da.eye(4)[da.eye(4)[0] > 1], r"view 'x' has no rows, its shape is \(0, 4\)"),
        (
            lambda: dd.from_pandas(pd.DataFrame({"a": [1.0], "b": ["text"]}), npartitions=1),
            "view 'x' is a data frame whose column 'b' is not numeric; choose the columns",
        ),
        (
            lambda: dd.from_pandas(pd.DataFrame({"b": ["text"]}, dtype=object), npartitions=1),
            "view 'x' has no columns of numbers",
        ),
        (
            lambda: dd.from_pandas(pd.DataFrame({"b": [[1.0], [1.0, 2.0]]}), npartitions=1),
            "view 'x'.* of the same length",
        ),
        (
            lambda: da.from_delayed(dask.delayed(lambda: 1 / 0)(), (3, 2), float),
            "view 'x': its Dask graph failed: ZeroDivisionError: division by zero",
        ),
        (
            lambda: da.from_delayed(dask.delayed(np.zeros)((2, 2)), (3, 2), float),
            r"view 'x': block 0 .* has the shape \(2, 2\), expected \(3, 2\)",
        ),
    ],
)
def test_collections_that_are_no_view(view: Any, says: str):
    with pytest.raises(InputError, match=says):
        accumulate([view()], names=["x"])
