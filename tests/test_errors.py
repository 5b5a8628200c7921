"""A missing extra is named with the pip line that brings it."""

import math

import pytest

from identikit.errors import MissingExtraError, require


def test_an_installed_module_is_returned():
    assert require("math", "none", "This") is math


def test_a_missing_one_gives_the_pip_line():
    with pytest.raises(MissingExtraError, match=r"Reading needs no_such_module.*identikit\[io\]"):
        require("no_such_module", "io", "Reading")
