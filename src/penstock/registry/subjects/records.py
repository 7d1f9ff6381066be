"""The records of `_schemas`, byte for byte as Confluent's registry 8.5 writes them.

They are JSON without blanks, with fields in Jackson's order and without empty ones. Records of other versions
can be read too: with unknown fields, schemas of magic byte 0, and configurations and modes without a subject
in the value.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Final, Self, TypeAlias

from penstock.registry.formats import Reference
from penstock.registry.subjects import json_fields
from penstock.registry.subjects.configs import Config
from penstock.registry.subjects.contracts import Metadata, RuleSet
from penstock.registry.subjects.errors import RequestRefused
from penstock.registry.subjects.names import normalized

TENANT: Final = "default"
MODES: Final = ("READWRITE", "READONLY", "READONLY_OVERRIDE", "IMPORT", "FORWARD")


class UnreadableRecord(ValueError):
    """The record is not one that a registry writes, or has an unknown key type."""


@dataclass(frozen=True, slots=True)
class Record:
    """A record to write; without a value it is a tombstone."""

    key: bytes
    value: bytes | None


@dataclass(frozen=True, slots=True)
class SchemaKey:
    """The key of a version of a subject."""

    keytype: ClassVar[str] = "SCHEMA"
    subject: str
    version: int

    def __str__(self) -> str:
        return f"{{magic=1,keytype=SCHEMA,subject={self.subject},version={self.version}}}"

    def json(self) -> dict[str, Any]:
        return {"keytype": self.keytype, "subject": self.subject, "version": self.version, "magic": 1}


@dataclass(frozen=True, slots=True)
class SubjectKey:
    """The key of a subject's configuration, mode or deletion (None: the top level)."""

    keytype: str  # CONFIG, MODE, DELETE_SUBJECT, CLEAR_SUBJECT
    subject: str | None

    def json(self) -> dict[str, Any]:
        return _filled({"keytype": self.keytype, "subject": self.subject, "magic": 0})


@dataclass(frozen=True, slots=True)
class ContextKey:
    """The key of a context that has had a schema."""

    keytype: ClassVar[str] = "CONTEXT"
    context: str
    tenant: str = TENANT

    def json(self) -> dict[str, Any]:
        return {"keytype": self.keytype, "tenant": self.tenant, "context": self.context, "magic": 0}


Key: TypeAlias = SchemaKey | SubjectKey | ContextKey


@dataclass(frozen=True, slots=True)
class SchemaValue:
    """A registered schema.

    ``md5`` is set only if sensitive properties are stored encrypted; it is then the fingerprint of the schema
    with the plain ones.
    """

    subject: str
    version: int
    id: int
    schema: str
    schema_type: str = "AVRO"
    references: tuple[Reference, ...] = ()
    metadata: Metadata | None = None
    rule_set: RuleSet | None = None
    deleted: bool = False
    md5: str | None = None
    timestamp_ms: int | None = None  # the timestamp of its record

    @property
    def key(self) -> SchemaKey:
        return SchemaKey(self.subject, self.version)

    @property
    def fingerprint(self) -> bytes:
        if self.md5 is not None:
            return base64.b64decode(self.md5)
        return fingerprint(self.schema, self.references, self.metadata, self.rule_set)

    @property
    def guid(self) -> str:
        return str(uuid.UUID(bytes=self.fingerprint))

    def says_as(self, other: SchemaValue) -> bool:
        """Whether both are the same schema, apart from subject, version, id, deletion and time."""
        return replace(self, deleted=False, md5=None, timestamp_ms=None) == replace(
            other,
            subject=self.subject,
            version=self.version,
            id=self.id,
            deleted=False,
            md5=None,
            timestamp_ms=None,
        )

    def json(self) -> dict[str, Any]:
        return _filled(
            {
                "subject": self.subject,
                "version": self.version,
                "id": self.id,
                "md5": self.md5,
                "schemaType": self.schema_type,
                "references": [reference_json(each) for each in self.references],
                "metadata": self.metadata.json() if self.metadata is not None else None,
                "ruleSet": self.rule_set.json() if self.rule_set is not None else None,
                "schema": self.schema,
                "deleted": self.deleted,
            }
        )

    @classmethod
    def read(cls, key: SchemaKey, found: Mapping[str, Any]) -> Self:
        number = json_fields.integer(found, "id", "value")
        schema = json_fields.text(found, "schema", "value")
        if number is None or schema is None:
            raise UnreadableRecord(f"a schema needs an id and a text, found {sorted(found)}")
        md5 = json_fields.text(found, "md5", "value")
        return cls(
            key.subject,
            key.version,
            number,
            schema,
            json_fields.text(found, "schemaType", "value") or "AVRO",
            read_references(found.get("references"), "value.references"),
            Metadata.read(found.get("metadata"), "value.metadata"),
            RuleSet.read(found.get("ruleSet"), "value.ruleSet"),
            json_fields.boolean(found, "deleted", "value") or False,
            _checked_md5(md5) if md5 is not None else None,
        )


def fingerprint(
    schema: str, references: tuple[Reference, ...], metadata: Metadata | None, rule_set: RuleSet | None
) -> bytes:
    """Return the MD5 of everything that identifies a schema."""
    digest = hashlib.md5(schema.encode(), usedforsecurity=False)
    for each in references:
        digest.update(each.name.encode() + each.subject.encode())
        digest.update(each.version.to_bytes(4, "big", signed=True))
    for contract in (metadata, rule_set):
        if contract is not None:
            digest.update(b"\x01")  # an empty contract differs from none
            for text in contract.hashed():
                digest.update(text.encode())
    return digest.digest()


def reference_json(reference: Reference) -> dict[str, Any]:
    return {"name": reference.name, "subject": reference.subject, "version": reference.version}


def read_references(value: Any, what: str) -> tuple[Reference, ...]:
    references = []
    for each in json_fields.an_array(value or [], what):
        found = json_fields.an_object(each, what)
        name = json_fields.text(found, "name", what)
        subject = json_fields.text(found, "subject", what)
        version = json_fields.integer(found, "version", what)
        if name is None or subject is None or version is None:
            raise RequestRefused(42201, f"Invalid reference: {json.dumps(each, ensure_ascii=False)[:200]}")
        references.append(Reference(name, subject, version))
    return tuple(references)


# Encoding of records.


def schema_record(value: SchemaValue) -> Record:
    return Record(_bytes(value.key.json()), _bytes(value.json()))


def config_record(subject: str | None, config: Config) -> Record:
    value = _filled({"subject": subject, **config.json()})
    return Record(_bytes(SubjectKey("CONFIG", subject).json()), _bytes(value))


def mode_record(subject: str | None, mode: str) -> Record:
    value = _filled({"subject": subject, "mode": mode})
    return Record(_bytes(SubjectKey("MODE", subject).json()), _bytes(value))


def delete_subject_record(subject: str, last_version: int) -> Record:
    """Encode the soft deletion of all versions up to ``last_version``."""
    value = {"subject": subject, "version": last_version}
    return Record(_bytes(SubjectKey("DELETE_SUBJECT", subject).json()), _bytes(value))


def clear_subject_record(subject: str | None) -> Record:
    """Encode the removal of the soft-deleted versions of a subject or context."""
    value = _filled({"subject": subject})
    return Record(_bytes(SubjectKey("CLEAR_SUBJECT", subject).json()), _bytes(value))


def context_record(context: str) -> Record:
    key = ContextKey(context)
    return Record(_bytes(key.json()), _bytes({"tenant": key.tenant, "context": context}))


def noop_record() -> Record:
    """Encode the record that a registry writes to find the end of the topic."""
    return Record(_bytes({"keytype": "NOOP", "magic": 0}), None)


def tombstone(key: Key) -> Record:
    return Record(_bytes(key.json()), None)


# Decoding of records.


def read_key(key: bytes | None) -> Key | None:
    """Decode a key.

    Returns None for records without a meaning here: NOOP, and associations, which this registry doesn't keep.
    """
    found = _object(key, "key")
    keytype = found.get("keytype")
    match keytype:
        case "SCHEMA":
            if found.get("magic") not in (0, 1, None):
                raise UnreadableRecord(f"key: a schema of magic byte {found['magic']!r}, expected 0 or 1")
            subject = json_fields.text(found, "subject", "key")
            version = json_fields.integer(found, "version", "key")
            if subject is None or version is None or version < 1:
                raise UnreadableRecord("key: a schema needs a subject and a version of at least 1")
            return SchemaKey(normalized(subject), version)
        case "CONFIG" | "MODE" | "DELETE_SUBJECT" | "CLEAR_SUBJECT":
            return SubjectKey(keytype, normalized(json_fields.text(found, "subject", "key") or "") or None)
        case "CONTEXT":
            context = json_fields.text(found, "context", "key")
            return ContextKey(context or ".", json_fields.text(found, "tenant", "key") or TENANT)
        case "NOOP" | "ASSOC":
            return None
    raise UnreadableRecord(f"key: unknown keytype {keytype!r}")


def read_schema(key: SchemaKey, value: bytes, timestamp_ms: int | None) -> SchemaValue:
    return replace(SchemaValue.read(key, _object(value, "value")), timestamp_ms=timestamp_ms)


def read_config(value: bytes) -> Config:
    return Config.read(_object(value, "value"))


def read_mode(value: bytes) -> str:
    mode = json_fields.one_of(_object(value, "value"), "mode", MODES, "value")
    if mode is None:
        raise UnreadableRecord("value: a mode is missing")
    return mode


def read_last_deleted(value: bytes) -> int:
    return json_fields.integer(_object(value, "value"), "version", "value") or 0


def _object(data: bytes | None, what: str) -> Mapping[str, Any]:
    try:
        found = json.loads(data or b"")
    except (ValueError, RecursionError) as error:
        raise UnreadableRecord(f"{what}: not JSON ({error})") from None
    if not isinstance(found, dict):
        raise UnreadableRecord(f"{what}: expected an object, found {type(found).__name__}")
    return found


def _checked_md5(text: str) -> str:
    try:
        size = len(base64.b64decode(text, validate=True))
    except binascii.Error as error:
        raise UnreadableRecord(f"md5: not base64 ({error})") from None
    if size != 16:
        raise UnreadableRecord(f"md5: {size} bytes, expected 16")
    return text


def _filled(found: dict[str, Any]) -> dict[str, Any]:
    """Drop absent and empty values, like Jackson's NON_EMPTY. An empty object stays, as it is not a map."""
    return {name: each for name, each in found.items() if each is not None and each not in ("", [])}


def _bytes(found: dict[str, Any]) -> bytes:
    return json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode()
