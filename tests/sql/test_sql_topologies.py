"""Topologies of SQL, pickled for Spark's workers: the copies give the same results."""

from __future__ import annotations

import pytest
from pyspark import cloudpickle
from record_cases import RecordCase, record_cases
from record_runner import expected_of, outputs_of

from penstock.streams import App

CASES = [case for case in record_cases() if case.refused is None][::12]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_topology_that_was_sent_does_the_same(case: RecordCase, monkeypatch: pytest.MonkeyPatch) -> None:
    there = App.topology

    def sent(self: App) -> object:
        return cloudpickle.loads(cloudpickle.dumps(there(self)))

    monkeypatch.setattr(App, "topology", sent)
    assert outputs_of(case) == expected_of(case)
