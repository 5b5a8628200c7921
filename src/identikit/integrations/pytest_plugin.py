"""A pytest plugin: the fixture `identikit_check` asserts that vectors are as they were pinned.

pytest loads it by itself where identikit is installed. It imports nothing but pytest until a test
uses the fixture.

    def test_the_export_is_the_model(identikit_check):
        identikit_check("export.npy", "tests/ref.pin", fail_above=0.05)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from identikit.retrieval import CheckResult


@pytest.fixture
def identikit_check() -> Callable[..., CheckResult]:
    """A function that checks a view against a pin, and fails the test if it has changed.

    It takes what `identikit.check` takes, and returns its result. A check that cannot run, because
    of a missing file or other ids, is an error, never a pass.
    """

    def run(view: object, reference: object, **options: Any) -> CheckResult:
        __tracebackhide__ = True
        from identikit import InputError, check

        found, problem = None, ""
        try:
            found = check(view, reference, **options)
        except InputError as error:
            problem = f"identikit check could not run: {error}"
        # Outside of the block above, so that the sentence is all that is shown.
        if found is None:
            pytest.fail(problem, pytrace=False)
        if not found:
            pytest.fail(found.summary(), pytrace=False)
        return found

    return run
