"""User-defined functions, which CREATE FUNCTION loads from Python files.

A file is read once, when a statement is executed. Its text is shipped with the code that calls it, so
workers need no file. Arguments and results are values as described in `penstock.sql.evaluation`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal as Number
from functools import cache
from pathlib import Path, PurePosixPath
from typing import Any, Final

from penstock.errors import PenstockError
from penstock.sql.evaluation.numbers import BIGINT_BOUND, INTEGER_BOUND, at_scale, fitted
from penstock.sql.functions import Call, Function
from penstock.sql.language import types
from penstock.sql.language.errors import shortened, why_unread
from penstock.sql.language.times import DAY_MS
from penstock.sql.language.types import Array, Decimal, Map, SqlType, Struct


class UserFunctionError(PenstockError, ValueError):
    """A user-defined function is missing, failed, or returned an invalid result."""


@dataclass(frozen=True)
class UserFunctions:
    """The texts of files, by their names in CREATE FUNCTION."""

    files: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def read(cls, functions: Iterable[Function], folder: Path) -> UserFunctions:
        """Read the files of all user-defined functions from a folder."""
        found = {_file(function)[0] for function in functions if function.file is not None}
        return cls({name: _read(folder, name) for name in sorted(found)})

    def only(self, functions: Mapping[str, Function]) -> UserFunctions:
        """Select the files of these functions."""
        wanted = {_file(function)[0] for function in functions.values() if function.file is not None}
        return UserFunctions({name: text for name, text in self.files.items() if name in wanted})

    def check(self, function: Function) -> None:
        """Check that the file defines the function, and that it accepts the declared number of arguments."""
        self._found(function)

    def _found(self, function: Function) -> Callable[..., Any]:
        file, name = _file(function)
        if file not in self.files:
            raise UserFunctionError(
                f"function {function.name}: found no text of {file}, expected it to be read"
            )
        found: Any = _module(file, self.files[file]).get(name)
        if not callable(found):
            raise UserFunctionError(f"function {function.name}: found no function {name} in {file}")
        count = len(function.signatures[0].parameters)
        try:
            inspect.signature(found).bind(*range(count))
        except (TypeError, ValueError):
            raise UserFunctionError(
                f"function {function.name}: found {name}{_parameters(found)} in {file}, expected it to take "
                f"{count} {'argument' if count == 1 else 'arguments'}"
            ) from None
        made: Callable[..., Any] = found
        return made

    def bound(self, function: Function, call: Call) -> Callable[..., Any]:
        """Wrap the function for calls from expressions. A result that is not of the declared type raises."""
        found, (file, name) = self._found(function), _file(function)
        where = f"function {function.name} of {file}:{name}"
        assert call.result is not None
        checked = _checker(call.result)
        copies = [_copier(type_) for type_ in call.arguments]

        def called(*arguments: Any) -> Any:
            try:
                # A function that changes a list must not change the values of other columns.
                given_it = [copy(each) for copy, each in zip(copies, arguments, strict=True)]
                result = found(*given_it)
            except Exception as error:
                given = shortened(", ".join(map(repr, arguments)))
                raise UserFunctionError(
                    f"{where}, given ({given}): {type(error).__name__}: {error}"
                ) from error
            if result is None:
                return None
            try:
                return checked(result)
            except (TypeError, ValueError, ArithmeticError, KeyError):
                raise UserFunctionError(
                    f"{where}: found {shortened(repr(result))} as its result, expected {call.result}"
                ) from None

        return called


def _file(function: Function) -> tuple[str, str]:
    assert function.file is not None
    file, _, name = function.file.rpartition(":")
    return file, name


def _read(folder: Path, name: str) -> str:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise UserFunctionError(f"found the file {name}, expected one below the folder of extensions")
    try:
        return (folder / path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserFunctionError(f"found no file {name} to read below {folder}: {why_unread(error)}") from None


def _parameters(found: Callable[..., Any]) -> str:
    try:
        return str(inspect.signature(found))
    except (TypeError, ValueError):
        return "(…)"


@cache
def _module(file: str, text: str) -> dict[str, Any]:
    """Run a file and return its globals. A file runs once per process."""
    namespace: dict[str, Any] = {"__name__": file.removesuffix(".py").replace("/", "."), "__file__": file}
    try:
        exec(compile(text, file, "exec"), namespace)
    except Exception as error:
        raise UserFunctionError(
            f"found {file}, which does not run: {type(error).__name__}: {error}"
        ) from error
    return namespace


def _copier(type_: object) -> Callable[[Any], Any]:
    """Return a function that copies the lists and dictionaries in a value of this type."""
    match type_:
        case Array(element):
            part = _copier(element)
            return lambda value: None if value is None else [part(each) for each in value]
        case Map(_, inner):
            part = _copier(inner)
            return lambda value: None if value is None else {name: part(each) for name, each in value.items()}
        case Struct(fields):
            parts = {name: _copier(inner) for name, inner in fields}
            return lambda value: (
                None if value is None else {name: parts[name](each) for name, each in value.items()}
            )
    return _same


def _same(value: Any) -> Any:
    return value


# The Python types of values, and the ranges of the integer ones.
_CLASSES: Final[dict[SqlType, type]] = {types.BOOLEAN: bool, types.STRING: str, types.BYTES: bytes}
_BOUNDS: Final[dict[SqlType, range]] = {
    types.INTEGER: range(-INTEGER_BOUND, INTEGER_BOUND),
    types.BIGINT: range(-BIGINT_BOUND, BIGINT_BOUND),
    types.TIME: range(DAY_MS),
    types.DATE: range(-INTEGER_BOUND, INTEGER_BOUND),
    types.TIMESTAMP: range(-BIGINT_BOUND, BIGINT_BOUND),
}


def _checker(type_: SqlType) -> Callable[[Any], Any]:
    """A function that returns values of this type and raises TypeError, ValueError or KeyError for others."""
    if type_ in _BOUNDS:
        return lambda value: _integer(value, _BOUNDS[type_])
    if type_ in _CLASSES:
        return lambda value: _instance(value, _CLASSES[type_])
    match type_:
        case Decimal():
            return lambda value: _decimal(value, type_)
        case Array(element):
            each = _nullable(element)
            return lambda value: [each(part) for part in _instance(value, list)]
        case Map(key, value_type):
            name, each = _nullable(key), _nullable(value_type)
            return lambda value: {name(k): each(v) for k, v in _instance(value, dict).items()}
        case Struct(fields):
            return lambda value: _struct(value, {field: _nullable(inner) for field, inner in fields})
    return _double


def _nullable(type_: SqlType) -> Callable[[Any], Any]:
    checked = _checker(type_)
    return lambda value: None if value is None else checked(value)


def _instance(value: Any, wanted: type) -> Any:
    if not isinstance(value, wanted):
        raise TypeError
    return value


def _integer(value: Any, within: range) -> int:
    if type(value) is not int or value not in within:
        raise TypeError
    return value


def _double(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError
    return float(value)


def _decimal(value: Any, type_: Decimal) -> Number:
    if isinstance(value, bool) or not isinstance(value, (int, Number)):
        raise TypeError
    return fitted(at_scale(Number(value), type_.scale), type_)


def _struct(value: Any, fields: Mapping[str, Callable[[Any], Any]]) -> dict[str, Any]:
    """Check a struct. A missing field is null; an unknown field raises KeyError."""
    given = _instance(value, dict)
    if not given.keys() <= fields.keys():
        raise KeyError
    return {name: checked(given.get(name)) for name, checked in fields.items()}
