"""Parse JSON into types by Avro's rules for names, namespaces, forward names and defaults.

As in Java's library since 1.12, a name may be used before it is defined.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from penstock.registry.formats.avro.text import own_text
from penstock.registry.formats.avro.types import ABSENT, PRIMITIVES, Field, Name, Type
from penstock.registry.formats.errors import SchemaError, UnknownReference
from penstock.registry.formats.json_text import Json, kind, read, shortened

NAME_CHARACTERS_MAX: Final = 1_000  # full names are built for each type and at each use
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED: Final = frozenset(
    ["doc", "fields", "items", "name", "namespace", "size", "symbols", "values", "type", "aliases"]
)
_RESERVED_FIELD: Final = frozenset(["default", "doc", "name", "order", "type", "aliases"])
_ORDERS: Final = ("ascending", "descending", "ignore")
_INTEGER_BITS: Final = {"int": 31, "long": 63}
_SIZE_MAX: Final = 2**31 - 1


def parse(text: str, resolved: Mapping[str, str], *, is_new: bool) -> tuple[Type, list[Type]]:
    """Return the type of a text, and the types of the texts it refers to.

    A schema that is not new may have any characters in its namespaces, and defaults that don't fit, because
    it was registered before these checks existed.
    """
    parser = _Parser(is_new)
    referred = []
    for name, each in resolved.items():
        try:
            referred.append(parser.parse(each))
        except SchemaError as error:
            raise SchemaError(f"in the reference {name!r}: {error}") from None
    return parser.parse(text), referred


class _Parser:
    def __init__(self, is_new: bool) -> None:
        self._is_new = is_new
        self._named: dict[str, Type] = {}
        # Names used before their definition: the placeholder type, the possible full names, and the path.
        self._forward: list[tuple[Type, list[str], str]] = []
        self._defaults: list[tuple[Type, Json, str]] = []  # checked at the end, when all names are known
        # Names that are defined again: Java repeats the definitions that are nested in references.
        self._repeated: list[tuple[Type, Type, str]] = []

    def parse(self, text: str) -> Type:
        self._forward, self._defaults, self._repeated = [], [], []
        root = self._type(read(text), None, "")
        if self._forward:
            root = self._link(root)
        self._check_repeated()
        if self._is_new:
            for of, default, path in self._defaults:
                if not _fits(of, default):
                    raise SchemaError(
                        f"at {path}: the default {shortened(default)} is not of the type {describe(of)}"
                    )
        return root

    def _link(self, root: Type) -> Type:
        """Replace the placeholders of forward names by the types."""
        meant: dict[int, Type] = {}
        for stand_in, candidates, path in self._forward:
            found = next((self._named[name] for name in candidates if name in self._named), None)
            if found is None:
                raise UnknownReference(
                    f"at {path or '/'}: {candidates[0]!r} is not defined, neither here nor in a reference"
                )
            meant[id(stand_in)] = found
        waiting, seen = [root], set()
        while waiting:
            node = waiting.pop()
            if id(node) in seen:
                continue
            seen.add(id(node))
            node.items = [meant.get(id(each), each) for each in node.items]
            for each in node.fields:
                each.type = meant.get(id(each.type), each.type)
                waiting.append(each.type)
            waiting += node.items
        self._defaults = [(meant.get(id(of), of), default, path) for of, default, path in self._defaults]
        return meant.get(id(root), root)

    def _check_repeated(self) -> None:
        """Check that repeated definitions of a name are equal."""
        names = set(self._named)
        for first, again, path in self._repeated:
            if own_text(first, names) != own_text(again, names):
                raise _error(path, f"{again.full_name!r} is defined twice, in different ways")

    def _type(self, value: Json, space: str | None, path: str) -> Type:
        match value:
            case str():
                return self._by_name(value, space, path)
            case list():
                return self._union(value, space, path)
            case dict():
                return self._object(value, space, path)
        raise _error(path, f"expected a type: a name, an object or an array of types, found {kind(value)}")

    def _by_name(self, name: str, space: str | None, path: str) -> Type:
        if name in PRIMITIVES:
            return Type(name)
        candidates = [name] if "." in name or not space else [f"{space}.{name}", name]
        for each in candidates:
            if each in self._named:
                return self._named[each]
        stand_in = Type("forward")
        self._forward.append((stand_in, candidates, path))
        return stand_in

    def _union(self, value: list[Json], space: str | None, path: str) -> Type:
        union = Type("union", items=[self._type(each, space, f"{path}/{i}") for i, each in enumerate(value)])
        seen = set()
        for i, branch in enumerate(union.items):
            if branch.kind == "union":
                raise _error(f"{path}/{i}", "a union is directly inside another one")
            if branch.kind != "forward" and branch.full_name in seen:
                raise _error(f"{path}/{i}", f"{branch.full_name} occurs twice in a union")
            seen.add(branch.full_name)
        return union

    def _object(self, value: dict[str, Json], space: str | None, path: str) -> Type:
        type_name = value.get("type")
        if isinstance(type_name, dict | list):
            # Avro's Java library rejects {"type": {"type": "string"}}, but some other libraries write it.
            raise _error(path, f"expected the name of a type at 'type', found {kind(type_name)}")
        if not isinstance(type_name, str):
            raise _error(path, f"expected the name of a type at 'type', found {_found(value, 'type')}")
        match type_name:
            case "record" | "error":
                return self._record(value, space, path, is_error=type_name == "error")
            case "enum":
                return self._enum(value, space, path)
            case "fixed":
                return self._fixed(value, space, path)
            case "array" | "map":
                key = "items" if type_name == "array" else "values"
                if key not in value:
                    raise _error(path, f"expected a type at {key!r}, found nothing")
                item = self._type(value[key], space, f"{path}/{key}")
                return Type(type_name, _properties(value, _RESERVED), items=[item])
        if type_name in PRIMITIVES:
            return Type(type_name, _properties(value, _RESERVED))
        return self._by_name(type_name, space, path)

    def _record(self, value: dict[str, Json], space: str | None, path: str, *, is_error: bool) -> Type:
        record = self._named_type("record", value, space, path)
        record.is_error = is_error
        fields = value.get("fields")
        if not isinstance(fields, list):
            raise _error(
                path, f"expected the array of a record's fields at 'fields', found {_found(value, 'fields')}"
            )
        assert record.name is not None
        seen: dict[str, int] = {}
        for i, each in enumerate(fields):
            field = self._field(each, record.name.space, f"{path}/fields/{i}")
            if field.name in seen:
                first = seen[field.name]
                raise _error(f"{path}/fields/{i}", f"the field {field.name!r} is also at /fields/{first}")
            seen[field.name] = i
            record.fields.append(field)
        return record

    def _field(self, value: Json, space: str | None, path: str) -> Field:
        if not isinstance(value, dict):
            raise _error(path, f"expected the object of a field, found {kind(value)}")
        name = self._text(value, "name", path)
        self._check_name(name, f"{path}/name")
        if "type" not in value:
            raise _error(path, f"expected a type at 'type' of the field {name!r}, found nothing")
        of = self._type(value["type"], space, f"{path}/type")
        order = value.get("order", "ascending")
        if not isinstance(order, str) or order.lower() not in _ORDERS:
            raise _error(f"{path}/order", f"expected one of {', '.join(_ORDERS)}, found {shortened(order)}")
        default = value.get("default", ABSENT)
        if of.kind in ("float", "double") and isinstance(default, str):
            default = _number(default, f"{path}/default")
        if default is not ABSENT:
            self._defaults.append((of, default, f"{path}/default"))
        aliases = _strings(value, "aliases", path)
        return Field(
            name,
            of,
            _optional_text(value, "doc"),
            default,
            order.lower(),
            tuple(dict.fromkeys(aliases)),
            _properties(value, _RESERVED_FIELD),
        )

    def _enum(self, value: dict[str, Json], space: str | None, path: str) -> Type:
        enum = self._named_type("enum", value, space, path)
        enum.properties.pop("default", None)
        if not isinstance(value.get("symbols"), list):
            raise _error(
                path,
                f"expected the array of an enum's symbols at 'symbols', found {_found(value, 'symbols')}",
            )
        enum.symbols = _strings(value, "symbols", path)
        seen = set()
        for i, symbol in enumerate(enum.symbols):
            self._check_name(symbol, f"{path}/symbols/{i}")
            if symbol in seen:
                raise _error(f"{path}/symbols/{i}", f"the symbol {symbol!r} occurs twice in an enum")
            seen.add(symbol)
        if value.get("default") is not None:
            enum.symbol_default = self._text(value, "default", path)
            if enum.symbol_default not in seen:
                raise _error(
                    f"{path}/default",
                    f"the default {enum.symbol_default!r} of the enum {enum.full_name} is not one of its "
                    f"symbols",
                )
        return enum

    def _fixed(self, value: dict[str, Json], space: str | None, path: str) -> Type:
        fixed = self._named_type("fixed", value, space, path)
        size = value.get("size")
        if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size <= _SIZE_MAX:
            raise _error(path, f"expected a number of bytes at 'size', found {_found(value, 'size')}")
        fixed.size = size
        return fixed

    def _named_type(self, type_kind: str, value: dict[str, Json], space: str | None, path: str) -> Type:
        """Create a record, enum or fixed and register its name at once, because it may contain itself."""
        given = value.get("namespace")
        text = self._text(value, "name", path)
        name = _name(text, given if isinstance(given, str) else space)
        self._check_name(name.name, f"{path}/name")
        if name.space and len(name.space) > NAME_CHARACTERS_MAX:
            raise _error(
                f"{path}/namespace",
                f"expected a namespace of at most {NAME_CHARACTERS_MAX} characters, found {len(name.space)}",
            )
        for part in name.space.split(".") if name.space and self._is_new else ():
            self._check_name(part, f"{path}/namespace")
        if name.full in PRIMITIVES:
            raise _error(f"{path}/name", f"{name.full!r} is the name of one of Avro's own types")
        aliases = tuple(dict.fromkeys(_name(each, name.space) for each in _strings(value, "aliases", path)))
        made = Type(
            type_kind,
            _properties(value, _RESERVED),
            name=name,
            doc=_optional_text(value, "doc"),
            aliases=aliases,
        )
        first = self._named.setdefault(name.full, made)
        if first is not made:
            self._repeated.append((first, made, path))
        return made

    def _text(self, value: dict[str, Json], key: str, path: str) -> str:
        text = value.get(key)
        if not isinstance(text, str):
            raise _error(path, f"expected a string at {key!r}, found {_found(value, key)}")
        return text

    def _check_name(self, name: str, path: str) -> None:
        if len(name) > NAME_CHARACTERS_MAX:
            raise _error(
                path, f"expected a name of at most {NAME_CHARACTERS_MAX} characters, found {len(name)}"
            )
        if not _NAME.fullmatch(name):
            raise _error(
                path,
                f"expected a name of letters, digits and _ that does not begin with a digit, found {name!r}",
            )


def describe(of: Type) -> str:
    """Describe a type for messages."""
    if of.kind == "union":
        return f"union of {', '.join(each.full_name for each in of.items)}"
    return of.full_name if of.name is None else f"{of.kind} {of.full_name}"


def _fits(of: Type, value: Json) -> bool:
    """Whether a default has the right type."""
    match of.kind:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "int" | "long":
            bits = _INTEGER_BITS[of.kind]
            return isinstance(value, int) and not isinstance(value, bool) and -(2**bits) <= value < 2**bits
        case "float" | "double":
            return isinstance(value, int | Decimal) and not isinstance(value, bool)
        case "string" | "bytes" | "enum" | "fixed":
            return isinstance(value, str)
        case "array":
            return isinstance(value, list) and all(_fits(of.items[0], each) for each in value)
        case "map":
            return isinstance(value, dict) and all(_fits(of.items[0], each) for each in value.values())
        case "union":
            return any(_fits(branch, value) for branch in of.items)
    return isinstance(value, dict) and all(_field_fits(each, value) for each in of.fields)


def _field_fits(field: Field, record: dict[str, Json]) -> bool:
    value = record.get(field.name, field.default)
    return value is not ABSENT and _fits(field.type, value)


def _name(text: str, space: str | None) -> Name:
    before, _, last = text.rpartition(".")
    return Name(last, (before if "." in text else space) or None)


def _number(text: str, path: str) -> Json:
    """Convert the string default of a float or double, which Java accepts if it is a number."""
    try:
        return Decimal(str(float(text)))
    except ValueError:
        raise _error(path, f"expected a number, found {text!r}") from None


def _properties(value: dict[str, Json], reserved: frozenset[str]) -> dict[str, Any]:
    return {key: each for key, each in value.items() if key not in reserved}


def _optional_text(value: dict[str, Json], key: str) -> str | None:
    text = value.get(key)
    return text if isinstance(text, str) else None


def _strings(value: dict[str, Json], key: str, path: str) -> list[str]:
    items = value.get(key)
    if items is None:
        return []
    if not isinstance(items, list):
        raise _error(f"{path}/{key}", f"expected an array of strings, found {kind(items)}")
    for i, each in enumerate(items):
        if not isinstance(each, str):
            raise _error(f"{path}/{key}/{i}", f"expected a string, found {kind(each)}")
    return items


def _found(value: dict[str, Json], key: str) -> str:
    return shortened(value[key]) if key in value else "nothing"


def _error(path: str, what: str) -> SchemaError:
    return SchemaError(f"at {path or '/'}: {what}")
