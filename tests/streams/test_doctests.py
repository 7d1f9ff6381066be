"""The examples in the docstrings of penstock.streams and penstock.topology run."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import penstock.streams
import penstock.topology

MODULES = sorted(
    module.name
    for package in (penstock.streams, penstock.topology)
    for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
)


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings(name: str) -> None:
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0


def test_there_are_examples() -> None:
    examples = sum(doctest.testmod(importlib.import_module(name)).attempted for name in MODULES)
    assert examples > 20
