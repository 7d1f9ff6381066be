"""Patterns of tables select the same tables in the database, in the connector and in the query."""

from __future__ import annotations

import random
import re

import pytest

from penstock.connect.cdc.postgres.selection.filters import Filters
from penstock.mirroring import MirrorError
from penstock.mirroring.selection import Selection, expression, topics_expression

NAMES = ["inv", "INV2", "invx", "a.b", "public", "order items", "o-1", "x$y", "é"]
PATTERNS = ["inv.*", "*.*", "inv?.o*", "public.order items", "inv.x$y", "inv*.o-?", "*.é"]


def test_the_connector_captures_what_the_mirror_selects() -> None:
    rng = random.Random(1)
    cases = 0
    for _ in range(300):
        included = rng.sample(PATTERNS, rng.randint(1, 3))
        excluded = rng.sample(PATTERNS, rng.randint(0, 2))
        selection = Selection.of(included, excluded)
        filters = Filters.of(selection.connector_properties())
        for schema in NAMES:
            for table in NAMES:
                if "." not in schema + table:  # those have no topics of three parts
                    expected = selection.has(schema.lower(), table.lower())
                    assert filters.has_table(schema.lower(), table.lower()) == expected, (
                        selection,
                        schema,
                        table,
                    )
                    cases += 1
    assert cases > 10_000


@pytest.mark.parametrize("pattern", ["orders", "a.b.c", "inv.", ".x", ""])
def test_a_pattern_without_schema_and_table_is_refused(pattern: str) -> None:
    with pytest.raises(MirrorError, match=r"not SCHEMA\.TABLE"):
        Selection.of([pattern])


def test_keys_of_tables() -> None:
    selection = Selection.of(["inv.*"], keys=["inv.log=day, line"])
    assert selection.keys == {"inv.log": ("day", "line")}
    assert selection.connector_properties()["message.key.columns"] == r"inv\.log:day,line"
    for wrong in ("inv.log", "log=day", "inv.log=", "inv.log=,"):
        with pytest.raises(MirrorError, match=r"not SCHEMA\.TABLE=COLUMN"):
            Selection.of(["inv.*"], keys=[wrong])


def test_only_topics_of_changes_are_read() -> None:
    topics = re.compile(topics_expression("shop"))
    assert topics.search("shop.inv.orders")
    for other in ("shop.message", "shop2.inv.orders", "shop-mirror-configs", "my.shop.inv.orders", "a.b.c.d"):
        assert not topics.search(other)


def test_points_in_a_pattern_are_literal() -> None:
    assert re.fullmatch(expression("inv.*"), "inv.orders")
    assert not re.fullmatch(expression("inv.*"), "inventory")
