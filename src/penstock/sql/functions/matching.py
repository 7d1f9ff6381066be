"""Overload resolution: the signature of a function that fits a call, and the type of the call's result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from penstock.sql.functions.notation import (
    ArrayShape,
    Function,
    LambdaShape,
    Letter,
    MapShape,
    Parameter,
    Shape,
    Signature,
    Special,
    StructShape,
    legend,
)
from penstock.sql.language import types
from penstock.sql.language.errors import SqlError
from penstock.sql.language.types import Array, Decimal, Map, SqlType, Struct


@dataclass(frozen=True)
class LambdaArgument:
    """A lambda. ``type_of`` computes the type of its body from the types of its parameters."""

    parameters: int
    type_of: Callable[[Sequence[SqlType | None]], SqlType | None]

    def __str__(self) -> str:
        return f"a lambda of {self.parameters}"


@dataclass(frozen=True)
class UnitArgument:
    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class ValueArgument:
    """An argument with a value. Its type is None for NULL."""

    type: SqlType | None
    is_literal: bool = False

    def __str__(self) -> str:
        return "NULL" if self.type is None else str(self.type)


Argument = ValueArgument | UnitArgument | LambdaArgument


@dataclass(frozen=True)
class LambdaType:
    """The types of a lambda's parameters and result in a call."""

    parameters: tuple[SqlType | None, ...]
    result: SqlType | None


@dataclass(frozen=True)
class Call:
    """A call with a chosen signature: the types to convert its arguments to, and the type of its result.

    None is the type of NULL and of a unit.
    """

    arguments: tuple[SqlType | LambdaType | None, ...]
    result: SqlType | None


_READ_FROM_TEXTS: Final = (types.DATE, types.TIME, types.TIMESTAMP)
"""The parameter types that also accept a string literal."""


class _Unfit(Exception):
    """An argument does not fit the signature."""


@dataclass
class _Match:
    """The attempt to match one signature to one call."""

    signature: Signature
    letters: dict[str, SqlType | None] = field(default_factory=dict)
    decimals: list[Decimal] = field(default_factory=list)
    is_cast: bool = False
    """Whether an argument must be converted. NULL has every type, so it is never converted."""

    def tried(self, arguments: Sequence[Argument]) -> bool:
        parameters = _spread(self.signature.parameters, len(arguments))
        if parameters is None:
            return False
        try:
            # Lambdas come last, as the other arguments determine the types of their parameters.
            for parameter, argument in zip(parameters, arguments, strict=True):
                if not isinstance(argument, LambdaArgument):
                    self._take(parameter, argument)
            for parameter, argument in zip(parameters, arguments, strict=True):
                if isinstance(argument, LambdaArgument):
                    self._take_lambda(parameter.shape, argument)
        except _Unfit:
            return False
        return True

    def _take(self, parameter: Parameter, argument: Argument) -> None:
        if isinstance(argument, UnitArgument):
            if parameter.shape is not Special.UNIT:
                raise _Unfit
            return
        assert isinstance(argument, ValueArgument)
        if parameter.literal and not argument.is_literal:
            raise _Unfit
        if argument.is_literal and argument.type == types.STRING and parameter.shape in _READ_FROM_TEXTS:
            self.is_cast = True
        else:
            self._fit(parameter.shape, argument.type)

    def _take_lambda(self, shape: Shape, argument: LambdaArgument) -> None:
        if not isinstance(shape, LambdaShape) or len(shape.parameters) != argument.parameters:
            raise _Unfit
        result = argument.type_of([self._type(each) for each in shape.parameters])
        self._fit(shape.result, result)

    def _fit(self, shape: Shape, found: SqlType | None) -> None:
        if isinstance(shape, Letter):
            self._bind(shape.name, found)
        elif shape is Special.ANY:
            return
        elif shape is Special.DECIMAL:
            self._fit_decimal(found)
        elif isinstance(shape, (ArrayShape, MapShape)):
            self._fit_parts(shape, found)
        elif isinstance(shape, (Special, LambdaShape, StructShape)):
            raise _Unfit
        elif found != shape:
            if not types.can_become(found, shape):
                raise _Unfit
            self.is_cast = self.is_cast or found is not None

    def _fit_decimal(self, found: SqlType | None) -> None:
        if found is None:
            return
        if not types.is_numeric(found) or found == types.DOUBLE:
            raise _Unfit
        self.decimals.append(types.as_decimal(found))
        self.is_cast = self.is_cast or not isinstance(found, Decimal)

    def _fit_parts(self, shape: ArrayShape | MapShape, found: SqlType | None) -> None:
        match shape, found:
            case _, None:
                return
            case ArrayShape(element), Array():
                self._fit(element, found.element)
            case MapShape(key, value), Map():
                self._fit(key, found.key)
                self._fit(value, found.value)
            case _:
                raise _Unfit

    def _bind(self, letter: str, found: SqlType | None) -> None:
        if letter == "N" and found is not None and not types.is_numeric(found):
            raise _Unfit
        if letter in "CO" and isinstance(found, (Array, Map, Struct)):
            raise _Unfit
        if letter == "C" and found == types.BOOLEAN:
            raise _Unfit
        known = self.letters.get(letter)
        try:
            self.letters[letter] = types.common(known, found)
        except SqlError:
            raise _Unfit from None

    def _type(self, shape: Shape) -> SqlType | None:
        if isinstance(shape, Letter):
            return self.letters.get(shape.name)
        if isinstance(shape, ArrayShape):
            element = self._type(shape.element)
            return None if element is None else Array(element)
        if isinstance(shape, MapShape):
            key, value = self._type(shape.key), self._type(shape.value)
            return None if key is None or value is None else Map(key, value)
        if isinstance(shape, StructShape):
            fields = ((name, self._type(each)) for name, each in shape.fields)
            return Struct(tuple((name, type_) for name, type_ in fields if type_ is not None))
        if isinstance(shape, (Special, LambdaShape)):
            return None
        return shape

    def wanted(self, arguments: Sequence[Argument]) -> tuple[SqlType | LambdaType | None, ...]:
        """The type that each argument is converted to."""
        parameters = _spread(self.signature.parameters, len(arguments))
        assert parameters is not None
        return tuple(
            self._wanted(parameter.shape, argument)
            for parameter, argument in zip(parameters, arguments, strict=True)
        )

    def _wanted(self, shape: Shape, argument: Argument) -> SqlType | LambdaType | None:
        if isinstance(argument, LambdaArgument):
            assert isinstance(shape, LambdaShape)
            given = tuple(self._type(each) for each in shape.parameters)
            return LambdaType(given, self._type(shape.result) or argument.type_of(given))
        if isinstance(argument, UnitArgument):
            return None
        if shape is Special.DECIMAL:
            return self._widest()
        return self._type(shape) or argument.type

    def _widest(self) -> SqlType | None:
        """The common type of all decimal arguments."""
        widest: SqlType | None = None
        for each in self.decimals:
            widest = types.common(widest, each)
        return widest

    def result(self, arguments: Sequence[Argument]) -> SqlType | None:
        shape = self.signature.result
        if shape is Special.RANKED:
            return _ranked([each.type for each in arguments if isinstance(each, ValueArgument)])
        if shape in (Special.DECIMAL, Special.WHOLE):
            widest = self._widest()
            if isinstance(widest, Decimal) and shape is Special.WHOLE:
                return Decimal(max(1, widest.precision - widest.scale), 0)
            return widest
        return self._type(shape)


def _ranked(found: Sequence[SqlType | None]) -> SqlType | None:
    """The result type of TOPK: an array of values, or of structs that number the further columns."""
    first, *others = found[:-1]
    if first is None or None in others:
        return None
    if not others:
        return Array(first)
    further = tuple((f"col{number}", type_) for number, type_ in enumerate(others) if type_ is not None)
    return Array(Struct((("sort_col", first), *further)))


def _spread(parameters: tuple[Parameter, ...], count: int) -> list[Parameter] | None:
    """Repeat the variadic parameter to get one parameter per argument. None means that the count is wrong."""
    variadic = next((place for place, each in enumerate(parameters) if each.variadic), None)
    if variadic is None:
        return list(parameters) if len(parameters) == count else None
    repeated = count - (len(parameters) - 1)
    if repeated < 0:
        return None
    return [*parameters[:variadic], *[parameters[variadic]] * repeated, *parameters[variadic + 1 :]]


def result_type(function: Function, arguments: Sequence[Argument]) -> SqlType | None:
    """The result type of a call, or None for NULL. Raises a SqlError if no signature fits."""
    return _best(function, arguments).result(arguments)


def resolved_call(function: Function, arguments: Sequence[Argument]) -> Call:
    """Choose a signature for a call and resolve all its types. Raises a SqlError if no signature fits."""
    match = _best(function, arguments)
    return Call(match.wanted(arguments), match.result(arguments))


def _best(function: Function, arguments: Sequence[Argument]) -> _Match:
    """Choose the best matching signature.

    A match without casts beats all others. After that, matches are ranked: no variadic parameter, then the
    most parameters, then the fewest letters. A tie is ambiguous and raises a SqlError, as in ksqlDB.
    """
    matches = [match for match in map(_Match, function.signatures) if match.tried(arguments)]
    matches = [match for match in matches if not match.is_cast] or matches
    best = [match for match in matches if _rank(match) == max(map(_rank, matches))]
    if len(best) == 1:
        return best[0]
    found = f"{function.name}({', '.join(map(str, arguments))})"
    known = [match.signature for match in best] or function.signatures
    expected = " or ".join(f"{function.name}{str(each).partition(' →')[0]}" for each in known) + legend(known)
    if best:
        raise SqlError(f"found {found}, which is ambiguous, expected a CAST to one of {expected}")
    raise SqlError(f"found {found}, expected {expected}")


def _rank(match: _Match) -> tuple[bool, int, int]:
    parameters = match.signature.parameters
    return not any(each.variadic for each in parameters), len(parameters), -len(match.letters)
