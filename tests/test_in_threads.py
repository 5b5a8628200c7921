"""Work in threads, with a BLAS of one thread each."""

from __future__ import annotations

import pytest

from identikit._threads import blas_threads, in_threads, no_threads, one_thread


def test_threads_give_results_in_order_and_pass_errors_on() -> None:
    """Also from a generator, and with threads inside of threads."""

    def square(x: int) -> int:
        if x == 70:
            raise ValueError("seventy")
        return sum(in_threads(lambda y: y, [x] * x))

    assert [*in_threads(square, iter(range(60)), most=3)] == [x * x for x in range(60)]
    with pytest.raises(ValueError, match="seventy"):
        [*in_threads(square, range(60, 100), most=3)]
    assert [*in_threads(square, [], most=3)] == []


def test_threads_only_where_they_are_wanted() -> None:
    from threading import current_thread, main_thread

    def here(_: int) -> bool:
        return current_thread() is main_thread()

    assert not any(in_threads(here, range(8), most=2))
    assert all(in_threads(here, range(8), size=8, most=2))  # narrow matrices
    assert all(in_threads(here, [1], most=2))
    with no_threads():
        assert all(in_threads(here, range(8), most=2))
    assert not any(in_threads(here, range(8), most=2))


def test_blas_has_its_threads_back_whoever_leaves_last() -> None:
    """The limit holds while any thread is inside, in whatever order they come and go."""
    before = blas_threads()
    first, second = one_thread(), one_thread()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert blas_threads() == before
    second.__exit__(None, None, None)
    assert blas_threads() == before
