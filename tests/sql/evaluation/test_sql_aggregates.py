"""Aggregate functions when their states are merged."""

import importlib.util
from types import ModuleType

from penstock.sql.evaluation.builtin import aggregates
from penstock.sql.language import types


def _of_another_process() -> ModuleType:
    """Load the module once more, as in a worker that started later."""
    spec = importlib.util.find_spec(aggregates.__name__)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def test_what_came_last_is_known_though_workers_take_turns() -> None:
    here, there = (
        module.AGGREGATES["LATEST_BY_OFFSET"].bind((types.INTEGER,), (None,), {})
        for module in (aggregates, _of_another_process())
    )
    for before, after, expected in ((here, there, 2), (there, here, 2)):
        one = before.add(before.initial(), 1)
        other = after.add(after.initial(), expected)
        assert here.result(here.merge(one, other)) == expected
        assert here.result(here.merge(other, one)) == expected


def _result(name: str, type_: types.SqlType, values: list[object], *constants: object) -> object:
    kinds = (type_, *(types.INTEGER for _ in constants))
    function = aggregates.AGGREGATES[name].bind(kinds, (None, *constants), {})
    state = function.initial()
    for value in values:
        state = function.add(state, value, *constants)
    return function.result(state)


def test_the_largest_is_so_in_java_s_order() -> None:
    nan, late, early = float("nan"), "\uffff", "\U0001d11e"
    for doubles in ([nan, 1.0], [1.0, nan]):
        assert str(_result("MAX", types.DOUBLE, doubles)) == "nan"
        assert _result("MIN", types.DOUBLE, doubles) == 1.0
        assert str(_result("TOPK", types.DOUBLE, doubles, 2)) == "[nan, 1.0]"
    for texts in ([late, early], [early, late]):
        assert _result("MAX", types.STRING, texts) == late
        assert _result("TOPK", types.STRING, texts, 1) == [late]
    assert _result("MAX", types.BYTES, [b"\x80", b"\x01"]) == b"\x01"
