"""Data contracts: the metadata and rules stored beside a schema.

They are part of a schema's identity. Only clients execute the rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Final, NoReturn, Self

from penstock.registry.subjects import json_fields
from penstock.registry.subjects.errors import RequestRefused

CONFLUENT_VERSION: Final = "confluent:version"
RESERVED_FIELDS: Final = "confluent:reserved"
RULE_NAME_CHARACTERS_MAX: Final = 256

_KINDS: Final = ("TRANSFORM", "CONDITION")
_MIGRATION_MODES: Final = ("UPGRADE", "DOWNGRADE", "UPDOWN")
_DOMAIN_MODES: Final = ("WRITE", "READ", "WRITEREAD")
_ENVIRONMENTS: Final = ("ALL", "CLIENT", "GATEWAY", "SERVER", "NONE")


@dataclass(frozen=True, slots=True)
class Metadata:
    """Tags of paths, properties, and the names of sensitive properties.

    All are sorted, so that equal metadata hashes alike.
    """

    tags: tuple[tuple[str, tuple[str, ...]], ...] = ()
    properties: tuple[tuple[str, str], ...] = ()
    sensitive: tuple[str, ...] = ()

    @classmethod
    def read(cls, value: Any, what: str = "metadata") -> Self | None:
        """Read a JSON object; null gives None."""
        if value is None:
            return None
        found = json_fields.an_object(value, what)
        tags = json_fields.an_object(found.get("tags") or {}, f"{what}.tags")
        return cls(
            tuple(
                sorted(
                    (json_fields.a_text(path, what), _string_set(each, f"{what}.tags"))
                    for path, each in tags.items()
                )
            ),
            _string_map(found.get("properties"), f"{what}.properties"),
            _string_set(found.get("sensitive"), f"{what}.sensitive"),
        )

    def json(self) -> dict[str, Any]:
        whole = {
            "tags": {path: list(each) for path, each in self.tags},
            "properties": dict(self.properties),
            "sensitive": list(self.sensitive),
        }
        return {name: each for name, each in whole.items() if each}

    def hashed(self) -> Iterable[str]:
        """Yield the texts that enter a schema's fingerprint, in this order."""
        for path, tags in self.tags:
            yield from (path, *tags)
        for pair in self.properties:
            yield from pair
        yield from self.sensitive

    def property(self, name: str) -> str | None:
        return dict(self.properties).get(name)

    def with_version(self, version: int) -> Self:
        changed = {**dict(self.properties), CONFLUENT_VERSION: str(version)}
        return replace(self, properties=tuple(sorted(changed.items())))

    def without_version(self) -> Self:
        kept = tuple(pair for pair in self.properties if pair[0] != CONFLUENT_VERSION)
        return replace(self, properties=kept)

    def version(self) -> int | None:
        """Return the number in `confluent:version`, or None if it is not one."""
        text = self.property(CONFLUENT_VERSION)
        try:
            return int(text) if text is not None else None
        except ValueError:
            return None


def reserved_fields(metadata: Metadata | None) -> set[str]:
    """The field names that `confluent:reserved` forbids."""
    text = metadata.property(RESERVED_FIELDS) if metadata is not None else None
    return {name.strip() for name in (text or "").split(",") if name.strip()}


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of a contract, with its fields in the order of Confluent's records."""

    name: str | None = None
    doc: str | None = None
    kind: str = "TRANSFORM"
    mode: str = "WRITEREAD"
    type: str | None = None
    tags: tuple[str, ...] = ()
    params: tuple[tuple[str, str], ...] = ()
    expr: str | None = None
    onSuccess: str | None = None
    onFailure: str | None = None
    disabled: bool = False

    @classmethod
    def read(cls, value: Any, what: str) -> Self:
        found = json_fields.an_object(value, what)
        return cls(
            name=json_fields.text(found, "name", what),
            doc=json_fields.text(found, "doc", what),
            kind=json_fields.one_of(found, "kind", _KINDS, what) or "TRANSFORM",
            mode=json_fields.one_of(found, "mode", _MIGRATION_MODES + _DOMAIN_MODES, what) or "WRITEREAD",
            type=json_fields.text(found, "type", what),
            tags=_string_set(found.get("tags"), f"{what}.tags"),
            params=_string_map(found.get("params"), f"{what}.params"),
            expr=json_fields.text(found, "expr", what),
            onSuccess=json_fields.text(found, "onSuccess", what),
            onFailure=json_fields.text(found, "onFailure", what),
            disabled=json_fields.boolean(found, "disabled", what) or False,
        )

    def json(self) -> dict[str, Any]:
        whole = {each.name: getattr(self, each.name) for each in fields(self)}
        whole["tags"], whole["params"] = list(self.tags), dict(self.params)
        return {name: each for name, each in whole.items() if each not in (None, "", [], {})}

    def hashed(self) -> Iterable[str]:
        yield from (each for each in (self.name, self.doc, self.kind, self.mode, self.type) if each)
        yield from self.tags
        for pair in self.params:
            yield from pair
        yield from (each for each in (self.expr, self.onSuccess, self.onFailure) if each)
        if self.disabled:
            yield "\x01"

    def check(self) -> None:
        """Refuse a rule with an invalid name or no type, or with two actions although its mode allows one."""
        name = self.name
        if name is None:
            _refuse("Missing rule name")
        if not name:
            _refuse("Empty rule name")
        if len(name) > RULE_NAME_CHARACTERS_MAX:
            _refuse("Rule name too long")
        if not (name[0].isalpha() or name[0] == "_"):
            _refuse(f"Illegal initial character in rule name: {name}")
        if not all(each.isalnum() or each in "_-" for each in name):
            _refuse(f"Illegal character in rule name: {name}")
        if self.type is None:
            _refuse("Missing rule type")
        if self.mode not in ("WRITEREAD", "UPDOWN"):
            for action in (self.onSuccess, self.onFailure):
                if action is not None and "," in action:
                    _refuse("Multiple actions only valid with WRITEREAD and UPDOWN")


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The rules of a schema: for migration between versions, for its values, and for their encoding."""

    migrationRules: tuple[Rule, ...] = ()
    domainRules: tuple[Rule, ...] = ()
    encodingRules: tuple[Rule, ...] = ()
    enableAt: str | None = None

    @classmethod
    def read(cls, value: Any, what: str = "ruleSet") -> Self | None:
        if value is None:
            return None
        found = json_fields.an_object(value, what)
        return cls(
            _rules(found, "migrationRules", what),
            _rules(found, "domainRules", what),
            _rules(found, "encodingRules", what),
            json_fields.one_of(found, "enableAt", _ENVIRONMENTS, what),
        )

    def json(self) -> dict[str, Any]:
        whole: dict[str, Any] = {
            "migrationRules": [each.json() for each in self.migrationRules],
            "domainRules": [each.json() for each in self.domainRules],
            "encodingRules": [each.json() for each in self.encodingRules],
            "enableAt": self.enableAt,
        }
        return {name: each for name, each in whole.items() if each}

    @property
    def rules(self) -> tuple[Rule, ...]:
        return self.migrationRules + self.domainRules + self.encodingRules

    def hashed(self) -> Iterable[str]:
        for rule in self.rules:
            yield from rule.hashed()
        if self.enableAt is not None:
            yield self.enableAt

    def check(self) -> None:
        """Refuse duplicate names, and modes that belong to another group of rules."""
        names: set[str | None] = set()
        groups = (
            ("Migration", self.migrationRules, _MIGRATION_MODES),
            ("Domain", self.domainRules, _DOMAIN_MODES),
            ("Encoding", self.encodingRules, _DOMAIN_MODES),
        )
        for group, rules, modes in groups:
            for rule in rules:
                if rule.name in names:
                    _refuse(f"Found rule with duplicate name '{rule.name}'")
                names.add(rule.name)
                rule.check()
                if rule.mode not in modes:
                    _refuse(f"{group} rules can only be {', '.join(modes)}")


def merged_metadata(old: Metadata | None, new: Metadata | None) -> Metadata | None:
    """Merge two sets of metadata; ``new`` wins where they differ."""
    if old is None or new is None:
        return new if old is None else old
    return Metadata(
        tuple(sorted({**dict(old.tags), **dict(new.tags)}.items())),
        tuple(sorted({**dict(old.properties), **dict(new.properties)}.items())),
        tuple(sorted({*old.sensitive, *new.sensitive})),
    )


def merged_rule_sets(old: RuleSet | None, new: RuleSet | None) -> RuleSet | None:
    """Merge two rule sets; a rule of ``new`` replaces one with the same name in the same group."""
    if old is None or new is None:
        return new if old is None else old
    return RuleSet(
        _merged_rules(old.migrationRules, new.migrationRules),
        _merged_rules(old.domainRules, new.domainRules),
        _merged_rules(old.encodingRules, new.encodingRules),
        new.enableAt or old.enableAt,
    )


def _rules(found: Mapping[str, Any], name: str, what: str) -> tuple[Rule, ...]:
    group = json_fields.an_array(found.get(name) or [], f"{what}.{name}")
    return tuple(Rule.read(each, f"{what}.{name}") for each in group)


def _merged_rules(old: tuple[Rule, ...], new: tuple[Rule, ...]) -> tuple[Rule, ...]:
    names = {each.name for each in new}
    return tuple(each for each in old if each.name not in names) + new


def _string_set(value: Any, what: str) -> tuple[str, ...]:
    found = json_fields.an_array(value or [], what)
    return tuple(sorted({json_fields.a_text(each, what) for each in found}))


def _string_map(value: Any, what: str) -> tuple[tuple[str, str], ...]:
    found = json_fields.an_object(value or {}, what)
    pairs = (
        (json_fields.a_text(name, what), json_fields.a_text(each, f"{what}.{name}"))
        for name, each in found.items()
    )
    return tuple(sorted(pairs))


def _refuse(message: str) -> NoReturn:
    raise RequestRefused(42210, message)
