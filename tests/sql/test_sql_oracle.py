"""The cases of records, compared with the oracle wherever it can compute them."""

import pytest
from oracle import Unknown
from record_cases import RecordCase, record_cases
from record_runner import expected_of, oracle_of

from penstock.sql import SqlError, parse_script
from penstock.sql.analysis import analyze
from penstock.sql.catalog import Catalog

CASES = record_cases()


def _has_opinion(case: RecordCase) -> bool:
    if case.refused is not None:
        return False
    try:
        oracle_of(case)
    except Unknown:
        return False
    return True


@pytest.mark.parametrize("case", list(filter(_has_opinion, CASES)), ids=str)
def test_the_oracle_says_the_same(case: RecordCase) -> None:
    assert oracle_of(case) == expected_of(case)


@pytest.mark.parametrize("case", [case for case in CASES if case.refused is not None], ids=str)
def test_a_wrong_statement_is_refused(case: RecordCase) -> None:
    catalog = Catalog()
    with pytest.raises(SqlError) as caught:  # noqa: PT012 - the last statement of several
        for each in parse_script(case.sql):
            catalog = analyze(each.statement, catalog, case.sql, each.place.offset).catalog
    assert case.refused is not None
    assert case.refused in str(caught.value)


def test_cases_have_names_of_their_own() -> None:
    names = [case.name for case in CASES]
    assert len(names) == len(set(names))
