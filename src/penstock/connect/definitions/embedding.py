"""Embed the keys of one definition in another under a prefix, such as those of transforms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from penstock.connect.definitions.config_key import ConfigKey, Importance, Recommender, Validator

IMPORTANCES = list(Importance)


def sorted_keys(keys: Mapping[str, ConfigKey]) -> list[ConfigKey]:
    """Sort keys by group and order, then required ones first, then by importance and name."""
    groups = list(dict.fromkeys(key.group for key in keys.values() if key.group is not None))

    def place(key: ConfigKey) -> tuple[int, int, bool, int, str]:
        group = -1 if key.group is None else groups.index(key.group)
        return group, key.order, key.has_default, IMPORTANCES.index(key.importance), key.name

    return sorted(keys.values(), key=place)


def embedded(
    prefix: str, group_prefix: str, first_order: int, keys: Mapping[str, ConfigKey]
) -> Iterator[ConfigKey]:
    """Rename keys. Their validators and recommenders still see the names without prefix."""
    for order, key in enumerate(sorted_keys(keys), first_order):
        yield replace(
            key,
            name=prefix + key.name,
            validator=None if key.validator is None else EmbeddedValidator(prefix, key.validator),
            group=group_prefix if key.group is None else f"{group_prefix}: {key.group}",
            order=order,
            dependents=tuple(prefix + name for name in key.dependents),
            recommender=None if key.recommender is None else EmbeddedRecommender(prefix, key.recommender),
        )


@dataclass(frozen=True)
class EmbeddedValidator:
    """Calls a validator with the name that the key had before it was embedded."""

    prefix: str
    validator: Validator

    def __call__(self, name: str, value: Any) -> None:
        self.validator(name.removeprefix(self.prefix), value)

    def __str__(self) -> str:
        return str(self.validator)


@dataclass(frozen=True)
class EmbeddedRecommender:
    """Asks a recommender with the names that the keys had before they were embedded."""

    prefix: str
    recommender: Recommender

    def valid_values(self, name: str, parsed: Mapping[str, Any]) -> Sequence[Any]:
        return self.recommender.valid_values(name.removeprefix(self.prefix), self.unprefixed(parsed))

    def visible(self, name: str, parsed: Mapping[str, Any]) -> bool:
        return self.recommender.visible(name.removeprefix(self.prefix), self.unprefixed(parsed))

    def unprefixed(self, parsed: Mapping[str, Any]) -> dict[str, Any]:
        return {
            name.removeprefix(self.prefix): value
            for name, value in parsed.items()
            if name.startswith(self.prefix)
        }
