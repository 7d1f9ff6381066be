"""Load a document into nodes."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urljoin

from jsonschema_specifications import REGISTRY
from referencing import Registry
from referencing.exceptions import Unresolvable

from penstock.registry.formats.errors import SchemaError, UnknownReference
from penstock.registry.formats.json_schema.drafts import NUMBERS, Draft, draft_of
from penstock.registry.formats.json_schema.nodes import ABSENT, Node
from penstock.registry.formats.json_text import Json, kind, read, shortened, write
from penstock.registry.formats.references import names

if TYPE_CHECKING:
    from referencing._core import Resolved, Resolver

_TYPES: Final = ("string", "integer", "number", "boolean", "null", "array", "object")
_COMBINED: Final = ("allOf", "anyOf", "oneOf")
_LENGTHS: Final = ("minLength", "maxLength")
_REFERENCES: Final = ("$ref", "$dynamicRef", "$recursiveRef")
_LOCAL_BASE: Final = "https://registry.invalid/"  # the base that relative names are resolved against


def load(document: Json, resolved: Mapping[str, str]) -> Node:
    """Return the node of a document, which may refer to the documents in ``resolved`` by their names."""
    if not isinstance(document, dict | bool):
        raise SchemaError(f"expected an object or a boolean at the root, found {kind(document)}")
    return _Loader(draft_of(document), resolved).node(document, resolver_of(document, resolved), "#")


def resolver_of(document: Json, resolved: Mapping[str, str]) -> Resolver[Json]:
    """Return the resolver of a document's references, in itself and in the documents in ``resolved``."""
    draft = draft_of(document)
    root = draft.specification.create_resource(document)
    given = document.get(draft.id_keyword) if isinstance(document, dict) else None
    base = urljoin(_LOCAL_BASE, given) if isinstance(given, str) else _LOCAL_BASE
    registry: Registry[Json] = REGISTRY.with_resource(base, root)
    for name, text in resolved.items():
        registry = _with_reference(registry, base, name, text)
    return registry.resolver(base)


def look_up(resolver: Resolver[Json], reference: str) -> Resolved[Json]:
    """Return the target of a reference and the resolver for it. Raises LookupError."""
    try:
        return resolver.lookup(reference)
    except (Unresolvable, ValueError):
        # Some authors write $defs although their draft uses definitions, and Confluent's registry accepts
        # that.
        before, mark, after = reference.partition("#/$defs/")
        if not mark:
            raise LookupError(reference) from None
    try:
        return resolver.lookup(f"{before}#/definitions/{after}")
    except (Unresolvable, ValueError):
        raise LookupError(reference) from None


def within(draft: Draft, schema: dict[str, Json], resolver: Resolver[Json]) -> Resolver[Json]:
    """Return the resolver for the inside of a schema: references there are relative to the schema's id."""
    if isinstance(schema.get(draft.id_keyword), str):
        return resolver.in_subresource(draft.specification.create_resource(schema))
    return resolver


def _with_reference(registry: Registry[Json], base: str, name: str, text: str) -> Registry[Json]:
    try:
        document = read(text)
    except SchemaError as error:
        raise SchemaError(f"in the reference {name!r}: {error}") from None
    resource = draft_of(document).specification.create_resource(document)
    for uri in {urljoin(base, name), urljoin(_LOCAL_BASE, name), name}:
        registry = registry.with_resource(uri.removesuffix("#"), resource)
    return registry


class _Loader:
    def __init__(self, draft: Draft, resolved: Mapping[str, str]) -> None:
        self._draft = draft
        self._resolved = resolved
        self._nodes: dict[int, Node] = {}  # keyed by the id() of the document's objects, so that cycles end
        self._kept: list[Json] = []  # keeps the objects alive, so that their id() stays unique
        self._texts: dict[Any, int] = {}
        self._keys: dict[int, int] = {}

    def node(self, value: Json, resolver: Resolver[Json], path: str) -> Node:
        if value is True or value is False:
            return Node("anything" if value else "nothing", text=self._text(value))
        if not isinstance(value, dict):
            raise _error(path, f"expected a schema: an object or a boolean, found {kind(value)}")
        known = self._nodes.get(id(value))
        if known is not None:
            return known
        node = self._nodes[id(value)] = Node("anything", text=self._text(value))
        self._kept.append(value)
        if path != "#":
            resolver = within(self._draft, value, resolver)
        parts = _Parts(self, value, resolver, path).all()
        if len(parts) == 1:
            _become(node, parts[0])
        elif parts:
            node.kind, node.parts = "allOf", parts
        self._describe(node, value, path)
        return node

    def _describe(self, node: Node, value: dict[str, Json], path: str) -> None:
        node.id = _text(value, self._draft.id_keyword, path)
        node.title = _text(value, "title", path)
        node.description = _text(value, "description", path)
        node.default = value.get("default", ABSENT)
        connect_type = value.get("connect.type")
        node.connect_type = connect_type if isinstance(connect_type, str) else None

    def target(self, keyword: str, reference: str, resolver: Resolver[Json], path: str) -> Node:
        """Return the node that a reference points to."""
        try:
            found = look_up(resolver, reference)
        except LookupError:
            raise UnknownReference(
                f"at {path}/{keyword}: {reference!r} does not exist; expected a part of this document or a "
                f"registered reference (found {names(self._resolved)})"
            ) from None
        return self.node(found.contents, found.resolver, reference if "#" in reference else f"{reference}#")

    def _text(self, value: Json) -> int:
        """Return equal numbers for equal JSON. Each object of the document is visited once."""
        match value:
            case bool() | None | str():
                key: Any = (type(value).__name__, value)
            case int() | Decimal():
                key = ("number", Decimal(value))
            case list():
                key = ("array", *map(self._text, value))
            case _:
                number = self._keys.get(id(value))
                if number is not None:
                    return number
                key = ("object", frozenset((name, self._text(each)) for name, each in value.items()))
        number = self._texts.setdefault(key, len(self._texts) + 1)
        if isinstance(value, dict):
            self._keys[id(value)] = number
            self._kept.append(value)
        return number


def _become(node: Node, part: Node) -> None:
    for name in Node.__slots__:
        if name != "text":
            setattr(node, name, getattr(part, name))


class _Parts:
    """The nodes made from one object's keywords; each keyword is used once."""

    def __init__(self, loader: _Loader, value: dict[str, Json], resolver: Resolver[Json], path: str) -> None:
        self._loader = loader
        self._draft = loader._draft
        self._value = value
        self._resolver = resolver
        self._path = path

    def all(self) -> list[Node]:
        references = [
            self._reference(keyword)
            for keyword in (_REFERENCES if self._draft.is_modern else _REFERENCES[:1])
            if keyword in self._value
        ]
        if references and not self._draft.is_modern:
            return references  # siblings of $ref are ignored
        return [*references, *self._enumerated(), *self._combined(), *self._typed(), *self._conditions()]

    def _reference(self, keyword: str) -> Node:
        reference = _text(self._value, keyword, self._path)
        assert reference is not None
        target = self._loader.target(keyword, reference, self._resolver, self._path)
        return Node("reference", parts=[target])

    def _enumerated(self) -> list[Node]:
        parts = []
        if "enum" in self._value:
            parts.append(Node("enum", values=tuple(map(_value, self._array("enum")))))
        if "const" in self._value and self._draft.has_const:
            parts.append(Node("const", values=(_value(self._value["const"]),)))
        return parts

    def _combined(self) -> list[Node]:
        parts = []
        for keyword in _COMBINED:
            if keyword in self._value:
                schemas = self._array(keyword)
                if not schemas:
                    raise _error(f"{self._path}/{keyword}", "expected at least one schema, found none")
                parts.append(
                    Node(keyword, parts=[self._at(each, keyword, i) for i, each in enumerate(schemas)])
                )
        if "not" in self._value:
            parts.append(Node("not", parts=[self._at(self._value["not"], "not")]))
        return parts

    def _typed(self) -> list[Node]:
        """Return the nodes of `type` and of keywords that imply a type without naming it."""
        given = self._value.get("type", ABSENT)
        left = {
            "array": any(keyword in self._value for keyword in self._draft.arrays),
            "object": any(keyword in self._value for keyword in self._draft.objects),
            "number": any(keyword in self._value for keyword in NUMBERS),
            "string": any(keyword in self._value for keyword in self._draft.strings),
        }
        parts = []
        if given is not ABSENT:
            several = given if isinstance(given, list) else [given]
            for i, each in enumerate(several):
                if each not in _TYPES or not isinstance(each, str):
                    where = f"{self._path}/type/{i}" if isinstance(given, list) else f"{self._path}/type"
                    raise _error(where, f"expected one of {', '.join(_TYPES)}, found {shortened(each)}")
            made = [self._of_type(each) for each in several]
            left |= dict.fromkeys(("number" if each == "integer" else each for each in several), False)
            parts.append(Node("anyOf", parts=made) if isinstance(given, list) else made[0])
        return [*parts, *(self._of_type(each) for each, is_left in left.items() if is_left)]

    def _of_type(self, name: str) -> Node:
        match name:
            case "object":
                return self._object()
            case "array":
                return self._array_node()
            case "number" | "integer":
                return self._number(is_integer=name == "integer")
            case "string":
                return self._string()
        return Node(name)

    def _string(self) -> Node:
        limits: dict[str, Any] = self._counts(*_LENGTHS)
        pattern = _text(self._value, "pattern", self._path)
        if pattern is not None:
            limits["pattern"] = pattern
        return Node("string", limits=limits)

    def _number(self, *, is_integer: bool) -> Node:
        limits: dict[str, Any] = {}
        for keyword in NUMBERS:
            limit = self._value.get(keyword, ABSENT)
            if self._draft.name == "draft-04" and isinstance(limit, bool) and keyword.startswith("exclusive"):
                # In draft 4 a boolean says that the other limit is exclusive. Confluent's rules ignore that.
                limit = (
                    self._value.get(keyword.removeprefix("exclusive").lower(), ABSENT) if limit else ABSENT
                )
            if limit is ABSENT:
                continue
            if not isinstance(limit, int | Decimal) or isinstance(limit, bool):
                raise _error(f"{self._path}/{keyword}", f"expected a number, found {kind(limit)}")
            limits[keyword] = Decimal(limit)
        if limits.get("multipleOf", 1) <= 0:
            raise _error(
                f"{self._path}/multipleOf", f"expected a number above 0, found {limits['multipleOf']}"
            )
        return Node("number", limits=limits, is_integer=is_integer)

    def _object(self) -> Node:
        node = Node("object", limits=self._counts("minProperties", "maxProperties"))
        node.properties = self._schemas("properties")
        node.patterns = self._schemas("patternProperties")
        node.required = frozenset(self._strings("required"))
        if self._draft.is_modern:
            for name in self._mapping("dependentRequired"):
                node.needed[name] = frozenset(self._strings("dependentRequired", name))
            node.dependent = self._schemas("dependentSchemas")
            node.unevaluated = self._optional("unevaluatedProperties")
        else:
            for name, each in self._mapping("dependencies").items():
                if isinstance(each, list):
                    node.needed[name] = frozenset(self._strings("dependencies", name))
                else:
                    node.dependent[name] = self._at(each, "dependencies", name)
        self._optional("propertyNames")  # must be a schema; Confluent's rules don't compare it
        self._more(node, "additionalProperties")
        return node

    def _array_node(self) -> Node:
        limits: dict[str, Any] = self._counts("minItems", "maxItems", "minContains", "maxContains")
        if self._draft.is_modern and "contains" in self._value:
            limits.setdefault("minContains", 1)
        if not isinstance(self._value.get("uniqueItems", False), bool):
            found = kind(self._value["uniqueItems"])
            raise _error(f"{self._path}/uniqueItems", f"expected a boolean, found {found}")
        limits["uniqueItems"] = bool(self._value.get("uniqueItems", False))
        node = Node("array", limits=limits)
        self._optional("contains")
        if self._draft.is_modern:
            node.unevaluated = self._optional("unevaluatedItems")
        items = self._value.get("items", ABSENT)
        if "prefixItems" in self._draft.arrays:
            node.tuple_items = self._tuple("prefixItems") if "prefixItems" in self._value else []
            if items is False or node.tuple_items:
                self._more(node, "items")
            elif items is not True:
                node.items = self._optional("items")
            return node
        if isinstance(items, list):
            node.tuple_items = self._tuple("items")
        else:
            node.items = self._optional("items")
        self._more(node, "additionalItems")
        return node

    # -- keywords of one form ------------------------------------------------------------------------

    def _at(self, value: Json, *steps: str | int) -> Node:
        return self._loader.node(value, self._resolver, "/".join([self._path, *map(str, steps)]))

    def _optional(self, keyword: str) -> Node | None:
        return self._at(self._value[keyword], keyword) if keyword in self._value else None

    def _more(self, node: Node, keyword: str) -> None:
        """Read additionalProperties or additionalItems: a schema, or whether more are allowed at all."""
        value = self._value.get(keyword, True)
        if isinstance(value, bool):
            node.takes_more = value
        else:
            node.more = self._at(value, keyword)

    def _schemas(self, keyword: str) -> dict[str, Node]:
        return {name: self._at(each, keyword, name) for name, each in self._mapping(keyword).items()}

    def _tuple(self, keyword: str) -> list[Node]:
        return [self._at(each, keyword, i) for i, each in enumerate(self._array(keyword))]

    def _mapping(self, keyword: str) -> dict[str, Json]:
        value = self._value.get(keyword, {})
        if not isinstance(value, dict):
            raise _error(f"{self._path}/{keyword}", f"expected an object, found {kind(value)}")
        return value

    def _array(self, keyword: str) -> list[Json]:
        value = self._value[keyword]
        if not isinstance(value, list):
            raise _error(f"{self._path}/{keyword}", f"expected an array, found {kind(value)}")
        return value

    def _strings(self, keyword: str, name: str | None = None) -> list[str]:
        value = self._value.get(keyword, [])
        path = f"{self._path}/{keyword}"
        if name is not None:
            value, path = value[name], f"{path}/{name}"
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise _error(path, f"expected an array of names, found {shortened(value)}")
        return value

    def _counts(self, *keywords: str) -> dict[str, Any]:
        counts = {}
        for keyword in keywords:
            if keyword in self._value:
                count = self._value[keyword]
                whole = (
                    isinstance(count, int | Decimal) and not isinstance(count, bool) and count == int(count)
                )
                if not whole or count < 0:
                    raise _error(f"{self._path}/{keyword}", f"expected a count, found {shortened(count)}")
                counts[keyword] = int(count)
        return counts

    def _conditions(self) -> list[Node]:
        keywords = [keyword for keyword in ("if", "then", "else") if keyword in self._value]
        if not keywords or not self._draft.has_conditions:
            return []
        for keyword in keywords:
            self._optional(keyword)  # must be a schema; Confluent's rules don't compare it
        return [Node("conditional")]


def _value(value: Json) -> str:
    """Return a text that equal values share."""
    return write(value, number=lambda each: format(each.normalize(), "f"), sort_keys=True)


def _text(value: dict[str, Json], keyword: str, path: str) -> str | None:
    text = value.get(keyword)
    if text is not None and not isinstance(text, str):
        raise _error(f"{path}/{keyword}", f"expected a string, found {kind(text)}")
    return text


def _error(path: str, what: str) -> SchemaError:
    return SchemaError(f"at {path}: {what}")
