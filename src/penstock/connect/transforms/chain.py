"""The stages of a connector: its transforms in their order, each perhaps with a predicate.

    transforms=mask,route
    transforms.mask.type=org.apache.kafka.connect.transforms.MaskField$Value
    transforms.mask.fields=password
    transforms.mask.predicate=audited
    transforms.mask.negate=true
    transforms.route.type=…
    predicates=audited
    predicates.audited.type=org.apache.kafka.connect.transforms.predicates.TopicNameMatches
    predicates.audited.pattern=audit-.*

Each stage has its own predicate, even if several name the same alias.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from penstock.connect.definitions.config_def import ConfigDef
from penstock.connect.definitions.config_types import ConfigType, invalid, parse_type
from penstock.connect.errors import ConfigInvalid
from penstock.connect.transforms.names import find_shipped_predicate, find_shipped_transform
from penstock.connect.transforms.transform import Predicate, R, Transform

TRANSFORMS_CONFIG: Final = "transforms"
PREDICATES_CONFIG: Final = "predicates"

Part = TypeVar("Part", Transform, Predicate)

FindTransform = Callable[[str], type[Transform]]
"""The class for the type of a transform in a configuration. Raises ConfigInvalid."""
FindPredicate = Callable[[str], type[Predicate]]
"""The class for the type of a predicate in a configuration. Raises ConfigInvalid."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A transform, and the predicate that selects the records for it, with their aliases."""

    alias: str
    transform: Transform
    predicate_alias: str | None = None
    predicate: Predicate | None = None
    negate: bool = False

    @property
    def transform_class(self) -> type[Transform]:
        """The class of the transform, for reports of errors."""
        return type(self.transform)

    def apply(self, record: R) -> R | None:
        """Return the record as the transform makes it, or itself if the predicate excludes it.

        Whatever the transform or the predicate raises passes through.
        """
        if self.predicate is not None and self.predicate.test(record) == self.negate:
            return record
        return self.transform.apply(record)

    def close(self) -> None:
        """Close the transform and the predicate."""
        with ExitStack() as both:
            if self.predicate is not None:
                both.callback(self.predicate.close)
            both.callback(self.transform.close)


class Chain:
    """The stages of a connector in their order; a worker may run each by itself, to handle its errors."""

    def __init__(self, stages: Sequence[Stage] = ()) -> None:
        self.stages = tuple(stages)

    def apply(self, record: R) -> R | None:
        """Return the record as all stages make it, or None once one of them drops it."""
        changed: R | None = record
        for stage in self.stages:
            changed = stage.apply(record)
            if changed is None:
                return None
            record = changed
        return changed

    def close(self) -> None:
        """Close all stages, also if one of them raises."""
        with ExitStack() as all_stages:
            for stage in self.stages:
                all_stages.callback(stage.close)


def build_chain(
    properties: Mapping[str, Any],
    find_transform: FindTransform | None = None,
    find_predicate: FindPredicate | None = None,
) -> Chain:
    """Make and configure the stages that a connector's configuration lists.

    Without functions that find classes, only the transforms and predicates of Kafka Connect are known.

    Raises:
        ConfigInvalid: a stage lacks a setting or has one that cannot be used.
    """
    find_transform = find_transform or find_shipped_transform
    find_predicate = find_predicate or find_shipped_predicate
    predicates = {
        alias: _find(properties, f"{PREDICATES_CONFIG}.{alias}.", "Predicate", find_predicate)
        for alias in _aliases(properties, PREDICATES_CONFIG)
    }
    stages = []
    for alias in _aliases(properties, TRANSFORMS_CONFIG):
        prefix = f"{TRANSFORMS_CONFIG}.{alias}."
        check_negate(properties, prefix)
        transform = _find(properties, prefix, "Transformation", find_transform)
        stages.append(_stage(properties, alias, transform, predicates))
    return Chain(stages)


def check_negate(properties: Mapping[str, Any], prefix: str) -> None:
    """Raise ConfigInvalid if the transform with this prefix negates a predicate that it does not have."""
    if f"{prefix}negate" in properties and f"{prefix}predicate" not in properties:
        raise ConfigInvalid(
            f"Config '{prefix}negate' was provided but there is no config '{prefix}predicate' defining a "
            "predicate to be negated."
        )


def _aliases(properties: Mapping[str, Any], name: str) -> list[str]:
    aliases: list[str] = parse_type(name, properties.get(name, ""), ConfigType.LIST)
    check_aliases(name, aliases)
    return aliases


def check_aliases(name: str, aliases: Sequence[str]) -> None:
    """Raise ConfigInvalid if an alias occurs twice in the setting of this name."""
    if len(set(aliases)) < len(aliases):
        raise invalid(name, aliases, "Duplicate alias provided.")


def _find(
    properties: Mapping[str, Any], prefix: str, kind: str, find: Callable[[str], type[Part]]
) -> type[Part]:
    """Return the class that the settings with this prefix name, once they all fit its definition."""
    if (name := properties.get(f"{prefix}type")) is None:
        raise invalid(f"{prefix}type", None, f"Not a {kind}")
    found = find(str(name).strip())
    ConfigDef().embed(prefix, kind, 0, found.definition).parse(properties)
    return found


def _stage(
    properties: Mapping[str, Any],
    alias: str,
    transform_class: type[Transform],
    predicates: Mapping[str, type[Predicate]],
) -> Stage:
    prefix = f"{TRANSFORMS_CONFIG}.{alias}."
    transform = transform_class()
    transform.configure(_without_prefix(properties, prefix))
    predicate_alias = parse_type(
        f"{prefix}predicate", properties.get(f"{prefix}predicate"), ConfigType.STRING
    )
    if predicate_alias is None:
        return Stage(alias, transform)
    if predicate_alias not in predicates:
        expected = f"Expected one of the predicates: {', '.join(predicates) or 'there are none'}"
        raise invalid(f"{prefix}predicate", predicate_alias, expected)
    predicate = predicates[predicate_alias]()
    predicate.configure(_without_prefix(properties, f"{PREDICATES_CONFIG}.{predicate_alias}."))
    negate = parse_type(f"{prefix}negate", properties.get(f"{prefix}negate", "false"), ConfigType.BOOLEAN)
    return Stage(alias, transform, predicate_alias, predicate, negate)


def _without_prefix(properties: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    """The settings of a transform or predicate; those of its stage are not among them."""
    own = {name.removeprefix(prefix): value for name, value in properties.items() if name.startswith(prefix)}
    return {name: value for name, value in own.items() if name not in ("predicate", "negate")}
