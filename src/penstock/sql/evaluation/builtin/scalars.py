"""The table of scalar functions, which compute one value from one row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from penstock.sql.evaluation.builtin import (
    arrays_and_maps,
    encodings,
    json_texts,
    mathematics,
    regular_expressions,
    strings,
    temporal,
    urls,
)
from penstock.sql.language.types import SqlType


@dataclass(frozen=True)
class Scalar:
    """A scalar function. ``maker(types, result)`` chooses its implementation for arguments of these types."""

    maker: Callable[[Sequence[Any], SqlType], Callable[..., Any]]

    def bind(self, types: Sequence[Any], result: SqlType) -> Callable[..., Any]:
        return self.maker(types, result)


def _always(function: Callable[..., Any]) -> Scalar:
    return Scalar(lambda types, result: function)


SCALARS: Final[Mapping[str, Scalar]] = {
    **{
        name: _always(function)
        for module in (
            mathematics,
            strings,
            regular_expressions,
            encodings,
            arrays_and_maps,
            json_texts,
            urls,
            temporal,
        )
        for name, function in module.FUNCTIONS.items()
    },
    **{
        name: Scalar(maker)
        for module in (mathematics, strings, arrays_and_maps, json_texts)
        for name, maker in module.BY_TYPE.items()
    },
}
