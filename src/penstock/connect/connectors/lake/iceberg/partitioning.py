"""Partitions of tables that the sink creates, in the words of Apache's sink: ``day(ts), bucket(id, 16)``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from penstock.connect.errors import ConfigInvalid

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.transforms import Transform

SEPARATOR: Final = re.compile(r",(?![^()]*\))")
"""A comma outside of parentheses."""
_CALL: Final = re.compile(r"\s*(\w+)\s*\(\s*([^,()]+?)\s*(?:,\s*(\d+)\s*)?\)\s*")


def partition_terms(text: str) -> list[str]:
    """Split a list of fields and transforms of fields."""
    return [term.strip() for term in SEPARATOR.split(text) if term.strip()]


def partition_spec(terms: Sequence[str], schema: Schema) -> PartitionSpec:
    """Return the partitions of a table with a schema. Raises ConfigInvalid for an unknown transform."""
    from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec

    fields = []
    for place, term in enumerate(terms):
        column, transform = _column_and_transform(term)
        try:
            source = schema.find_field(column)
        except ValueError as error:
            raise ConfigInvalid(
                f"no column {column!r} to partition by, found {schema.column_names}"
            ) from error
        name = column if str(transform) == "identity" else f"{column}_{str(transform).partition('[')[0]}"
        fields.append(
            PartitionField(
                source_id=source.field_id,
                field_id=PARTITION_FIELD_ID_START + place,
                transform=transform,
                name=name,
            )
        )
    return PartitionSpec(*fields)


def _column_and_transform(term: str) -> tuple[str, Transform]:
    from pyiceberg import transforms

    call = _CALL.fullmatch(term)
    if call is None:
        return term, transforms.IdentityTransform()
    name, column, number = call[1].lower(), call[2], call[3]
    plain = {
        "year": transforms.YearTransform,
        "years": transforms.YearTransform,
        "month": transforms.MonthTransform,
        "months": transforms.MonthTransform,
        "day": transforms.DayTransform,
        "days": transforms.DayTransform,
        "hour": transforms.HourTransform,
        "hours": transforms.HourTransform,
    }
    if name in plain and number is None:
        return column, plain[name]()
    if name == "bucket" and number is not None:
        return column, transforms.BucketTransform(int(number))
    if name == "truncate" and number is not None:
        return column, transforms.TruncateTransform(int(number))
    raise ConfigInvalid(
        f"found the partition {term!r}: expected a column, year(c), month(c), day(c), hour(c), bucket(c, n) "
        "or truncate(c, n)"
    )
