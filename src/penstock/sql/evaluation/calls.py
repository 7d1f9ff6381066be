"""The lookup of the Python function that implements a call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from penstock.sql.evaluation.builtin import SCALARS
from penstock.sql.evaluation.user_functions import UserFunctions
from penstock.sql.functions import Call, Function
from penstock.sql.language.errors import SqlError


@dataclass(frozen=True)
class FunctionCalls:
    functions: Mapping[str, Function]
    user_functions: UserFunctions

    def bound(self, name: str, call: Call) -> Callable[..., Any]:
        """The Python function for a call. Raises a SqlError for an aggregate or table function."""
        function = self.functions[name]
        if function.file is not None:
            return self.user_functions.bound(function, call)
        scalar = SCALARS.get(name)
        if scalar is None:
            raise SqlError(f"found the {function.kind.value} function {name}, expected a scalar function")
        assert call.result is not None
        return scalar.bind(call.arguments, call.result)
