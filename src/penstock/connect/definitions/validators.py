"""Validators of configuration values, with Kafka's messages.

A validator is called with the name of the key and its parsed value, and raises ConfigInvalid. `str` of it
shows which values are valid. Any function with that signature serves as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from penstock.connect.definitions.config_key import Validator
from penstock.connect.definitions.config_types import invalid, java_text
from penstock.connect.errors import ConfigInvalid

HASH_TABLE_SIZE: Final = 16
"""The buckets of a new Java HashSet. It doubles them once it is filled to three quarters."""


@dataclass(frozen=True)
class Range:
    """Accepts numbers from `least` to `most`, both included; None leaves an end open."""

    least: float | None = None
    most: float | None = None

    def __call__(self, name: str, value: Any) -> None:
        if value is None:
            raise invalid(name, None, "Value must be non-null")
        if self.least is not None and value < self.least:
            raise invalid(name, value, f"Value must be at least {java_text(self.least)}")
        if self.most is not None and value > self.most:
            raise invalid(name, value, f"Value must be no more than {java_text(self.most)}")

    def __str__(self) -> str:
        ends = [java_text(end) for end in (self.least, self.most) if end is not None]
        match self.least, self.most:
            case None, None:
                return "[...]"
            case None, _:
                return f"[...,{ends[0]}]"
            case _, None:
                return f"[{ends[0]},...]"
            case _:
                return f"[{ends[0]},...,{ends[1]}]"


class ValidString:
    """Accepts only some strings."""

    def __init__(self, *valid: str) -> None:
        self.valid = valid

    def __call__(self, name: str, value: Any) -> None:
        if value not in self.valid:
            raise invalid(name, value, f"String must be one of: {', '.join(self.valid)}")

    def __str__(self) -> str:
        return f"[{', '.join(self.valid)}]"


class CaseInsensitiveValidString:
    """Accepts only some strings, in upper or lower case."""

    def __init__(self, *valid: str) -> None:
        self.valid = hash_set_order([each.upper() for each in valid])

    def __call__(self, name: str, value: Any) -> None:
        if value is None or value.upper() not in self.valid:
            raise invalid(name, value, f"String must be one of (case insensitive): {', '.join(self.valid)}")

    def __str__(self) -> str:
        return f"(case insensitive) [{', '.join(self.valid)}]"


def hash_set_order(texts: Sequence[str]) -> list[str]:
    """Sort strings as a Java HashSet does, since Kafka's message lists them in that order."""
    distinct = list(dict.fromkeys(texts))
    size = HASH_TABLE_SIZE
    while len(distinct) > size * 3 // 4:
        size *= 2
    return sorted(distinct, key=lambda text: java_bucket(text, size))


def java_bucket(text: str, size: int) -> int:
    units = text.encode("utf-16-be")
    hashed = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        hashed = (hashed * 31 + (high << 8 | low)) & 0xFFFFFFFF
    return (hashed ^ hashed >> 16) & (size - 1)


class ValidList:
    """Accepts lists of some strings, or of any strings if none are given, without empty strings.

    `ConfigDef.parse` removes duplicates before it calls this validator; `validate` reports them.
    """

    removes_duplicates: ClassVar[bool] = True

    def __init__(self, *valid: str, may_be_empty: bool = True, may_be_null: bool = False) -> None:
        self.valid = ValidString(*valid)
        self.may_be_empty = may_be_empty
        self.may_be_null = may_be_null

    def __call__(self, name: str, value: Any) -> None:
        if value is None:
            if not self.may_be_null:
                raise ConfigInvalid(f"Configuration '{name}' values must not be null.")
            return
        if not value and not self.may_be_empty:
            choice = str(self.valid) if self.valid.valid else "any non-empty value"
            raise ConfigInvalid(f"Configuration '{name}' must not be empty. Valid values include: {choice}")
        if len(set(value)) != len(value):
            raise ConfigInvalid(f"Configuration '{name}' values must not be duplicated.")
        for each in value:
            if each == "":
                raise ConfigInvalid(f"Configuration '{name}' values must not be empty.")
            if self.valid.valid:
                self.valid(name, each)

    def __str__(self) -> str:
        return str(self.valid) if self.valid.valid else ""


class NonNullValidator:
    """Accepts everything but a missing value."""

    def __call__(self, name: str, value: Any) -> None:
        if value is None:
            raise invalid(name, None, "entry must be non null")

    def __str__(self) -> str:
        return "non-null string"


class NonEmptyString:
    """Accepts a missing string, but not an empty one."""

    def __call__(self, name: str, value: Any) -> None:
        if value == "":
            raise invalid(name, value, "String must be non-empty")

    def __str__(self) -> str:
        return "non-empty string"


class NonEmptyStringWithoutControlChars:
    """Accepts a missing string, but neither an empty one nor control characters."""

    def __call__(self, name: str, value: Any) -> None:
        if value is None:
            return
        if value == "":
            raise invalid(name, value, "String may not be empty")
        if found := [ord(char) for char in value if char <= "\x1f" or "\x7f" <= char <= "\x9f"]:
            problem = "String may not contain control sequences but had the following ASCII chars: "
            raise invalid(name, value, problem + ", ".join(map(str, found)))

    def __str__(self) -> str:
        return "non-empty string without ISO control characters"


@dataclass(frozen=True)
class ListSize:
    """Accepts lists of at most `most` values."""

    most: int

    def __call__(self, name: str, value: Any) -> None:
        if value is not None and len(value) > self.most:
            raise invalid(name, value, f"exceeds maximum list size of [{self.most}].")

    def __str__(self) -> str:
        return f"List containing maximum of {self.most} elements"


class CompositeValidator:
    """Accepts what each of several validators accepts."""

    def __init__(self, *validators: Validator) -> None:
        self.validators = validators

    def __call__(self, name: str, value: Any) -> None:
        for validator in self.validators:
            validator(name, value)

    def __str__(self) -> str:
        return ", ".join(map(str, self.validators))


@dataclass(frozen=True)
class DescribedValidator:
    """A function as a validator, with a text that shows which values are valid (Kafka's LambdaValidator)."""

    check: Callable[[str, Any], None]
    valid: str

    def __call__(self, name: str, value: Any) -> None:
        self.check(name, value)

    def __str__(self) -> str:
        return self.valid
