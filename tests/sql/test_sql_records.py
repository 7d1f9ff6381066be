"""Cases of whole queries, each run by the engine in a TopologyTest."""

import pytest
from oracle import Unknown
from record_cases import RecordCase, record_cases
from record_generator import KINDS, generated
from record_runner import expected_of, oracle_of, outputs_of
from test_sql_generated import seeds

pytest.importorskip("penstock.sql.planning", reason="the planner makes the applications that run")
pytest.importorskip(
    "penstock.sql.evaluation.builtin", reason="the planner binds functions to what they compute"
)

CASES = [case for case in record_cases() if case.refused is None]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_engine_writes_what_the_case_says(case: RecordCase) -> None:
    assert outputs_of(case) == expected_of(case)


@pytest.mark.parametrize("kind", KINDS)
def test_the_engine_and_the_oracle_say_the_same(kind: str) -> None:
    told = 0
    for seed in seeds():
        case = generated(kind, seed)
        try:
            expected = oracle_of(case)
        except Unknown:
            continue
        assert outputs_of(case) == expected, f"{case.name}\n{case.sql}\n{case.inputs}"
        told += len(expected)
    assert told > 0
