"""Selects the tests that `make test-long` runs and the gate does not.

A test marked ``long`` runs only there. One marked ``longer`` runs in both, with more repetitions there.
"""

import os
from typing import Final

import pytest

IS_LONG: Final = os.environ.get("PENSTOCK_LONG", "0") != "0"


def repetitions(variable: str, gate: int, long: int) -> int:
    """The number from an environment variable, or the default of the gate or of `make test-long`."""
    return int(os.environ.get(variable, long if IS_LONG else gate))


def skip_long(items: list[pytest.Item]) -> None:
    """Skip tests marked ``long``, unless this is the long run."""
    if IS_LONG:
        return
    for item in items:
        if item.get_closest_marker("long") is not None:
            item.add_marker(pytest.mark.skip(reason="make test-long runs it"))
