"""The configuration of a subject, of a context, or of the top level."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Self

from penstock.registry.formats.levels import Level
from penstock.registry.subjects import json_fields
from penstock.registry.subjects.contracts import Metadata, RuleSet
from penstock.registry.subjects.errors import RequestRefused

POLICIES: Final = ("STRICT", "LENIENT", "LOGICAL")
_SHARED: Final = (
    *("normalize", "validateFields", "validateNewSchemas", "validateRules"),
    *("compatibilityPolicy", "compatibilityGroup"),
)


@dataclass(frozen=True, slots=True)
class Config:
    """A configuration with Confluent's field names, in the order of its records. None means not set."""

    alias: str | None = None
    aliasForDeks: str | None = None
    normalize: bool | None = None
    validateFields: bool | None = None
    validateNewSchemas: bool | None = None
    validateRules: bool | None = None
    compatibilityLevel: str | None = None
    compatibilityPolicy: str | None = None
    compatibilityGroup: str | None = None
    defaultMetadata: Metadata | None = None
    overrideMetadata: Metadata | None = None
    defaultRuleSet: RuleSet | None = None
    overrideRuleSet: RuleSet | None = None

    @classmethod
    def read(cls, found: Mapping[str, Any], what: str = "value") -> Self:
        """Read a record's value. An unknown level or policy counts as not set."""
        level = json_fields.text(found, "compatibilityLevel", what)
        policy = json_fields.text(found, "compatibilityPolicy", what)
        return cls(
            json_fields.text(found, "alias", what),
            json_fields.text(found, "aliasForDeks", what),
            json_fields.boolean(found, "normalize", what),
            json_fields.boolean(found, "validateFields", what),
            json_fields.boolean(found, "validateNewSchemas", what),
            json_fields.boolean(found, "validateRules", what),
            known_level(level),
            known_policy(policy),
            json_fields.text(found, "compatibilityGroup", what),
            Metadata.read(found.get("defaultMetadata"), f"{what}.defaultMetadata"),
            Metadata.read(found.get("overrideMetadata"), f"{what}.overrideMetadata"),
            RuleSet.read(found.get("defaultRuleSet"), f"{what}.defaultRuleSet"),
            RuleSet.read(found.get("overrideRuleSet"), f"{what}.overrideRuleSet"),
        )

    @property
    def changes_contracts(self) -> bool:
        """Whether it adds to the metadata or rules of schemas."""
        return any(
            each is not None
            for each in (
                self.defaultMetadata,
                self.overrideMetadata,
                self.defaultRuleSet,
                self.overrideRuleSet,
            )
        )

    @property
    def level(self) -> Level:
        return Level(self.compatibilityLevel or "BACKWARD")

    def json(self) -> dict[str, Any]:
        """Return the fields that are set, without empty texts."""
        return {name: each for name, each in self.whole_json().items() if each != ""}

    def whole_json(self) -> dict[str, Any]:
        found = {each.name: getattr(self, each.name) for each in fields(self)}
        return {
            name: each.json() if isinstance(each, Metadata | RuleSet) else each
            for name, each in found.items()
            if each is not None
        }

    def with_level(self, default: str) -> Self:
        return self if self.compatibilityLevel else replace(self, compatibilityLevel=default)

    def over(self, top: Config) -> Self:
        """Return a subject's configuration with the unset `_SHARED` fields taken from the top level."""
        taken = {name: getattr(top, name) for name in _SHARED}
        return replace(self, **{name: each for name, each in taken.items() if getattr(self, name) is None})

    def updated(self, body: Mapping[str, Any]) -> Self:
        """Return the configuration as changed by a request.

        A null in the body unsets a field; a missing field stays.
        """
        checked = _checked(body)
        return replace(self, **checked)


def known_level(text: str | None) -> str | None:
    level = text.upper() if text is not None else None
    return level if level in Level.__members__ else None


def known_policy(text: str | None) -> str | None:
    policy = text.upper() if text is not None else None
    return policy if policy in POLICIES else None


def _checked(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a request under our names."""
    level = json_fields.text(body, "compatibility", "config")
    if level is not None and known_level(level) is None:
        raise RequestRefused(
            42203,
            "Invalid compatibility level. Valid values are none, backward, forward, full, "
            "backward_transitive, forward_transitive, and full_transitive",
        )
    policy = known_policy(json_fields.text(body, "compatibilityPolicy", "config"))
    if policy == "LOGICAL":
        raise RequestRefused(
            42203, "The compatibility policy LOGICAL is not supported, use STRICT or LENIENT"
        )
    read = Config.read({**body, "compatibilityLevel": level, "compatibilityPolicy": policy}, "config")
    for rules in (read.defaultRuleSet, read.overrideRuleSet):
        if rules is not None:
            rules.check()
    asked = {"compatibilityLevel" if name == "compatibility" else name for name in body}
    return {each.name: getattr(read, each.name) for each in fields(read) if each.name in asked}
