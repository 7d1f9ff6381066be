"""The notation, and that the definitions equal those of the target release."""

from __future__ import annotations

from pathlib import Path

import pytest
from kafka_facts import facts

from penstock.protocol.decoder import min_size
from penstock.protocol.definition import DefinitionError, Library, Versions, library, parse_file
from penstock.protocol.generate_stubs import STUB_PATH, stub_text

SMALL = """\
# A comment.
api 900 Small
versions 0-4  flexible 2+  stable 0-3  listeners broker

request
    name         string?1+        = null   # nullable from 1 on
    count        int32      3+    = -1
    items        [Item]?    0-2
        id       uuid
        more     [int16]    2+
    extra        Shared     4     tag 1
    raw          string           plain

struct Shared
    flag         bool             = true

response
"""


def parsed(tmp_path: Path, text: str) -> Library:
    (tmp_path / "apis").mkdir()
    (tmp_path / "apis" / "small.kmsg").write_text(text)
    return Library(tmp_path)


def test_notation(tmp_path: Path) -> None:
    small = parsed(tmp_path, SMALL)
    request = small.message("SmallRequest")
    assert (request.kind, request.id, request.versions, request.flexible) == ("request", 900, (0, 4), (2, 4))
    name, count, items, extra, raw = request.body.fields
    assert (name.type_name, name.nullable, name.versions, name.default) == ("string", (1, 4), (0, 4), "null")
    assert (count.versions, count.default_value) == ((3, 4), -1)
    assert (items.is_array, items.versions, items.nullable) == (True, (0, 2), (0, 2))
    assert items.struct is not None
    assert [(f.name, f.versions) for f in items.struct.fields] == [("id", (0, 2)), ("more", (2, 4))]
    assert (extra.tag, extra.versions, extra.struct) == (1, (4, 4), request.structs["Shared"])
    assert request.structs["Shared"].fields[0].default_value is True
    assert (raw.compact, name.compact) == (False, True)
    assert small.message("SmallResponse").body.fields == []
    with pytest.raises(KeyError):
        small.message("LargeRequest")


def test_head_of_an_api(tmp_path: Path) -> None:
    (small,) = parsed(tmp_path, SMALL).apis()
    assert (small.key, small.name, small.versions, small.stable) == (900, "Small", (0, 4), (0, 3))
    assert (small.advertised, small.listeners) == ((0, 3), ("broker",))


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("    name  [string", "not a field"),
        ("    name  string  1+  tag x", "not a field"),
        ("    name  string?x", "not a range of versions"),
        ("nonsense here", "expected the head of a message"),
    ],
)
def test_a_broken_definition_names_file_and_line(tmp_path: Path, line: str, what: str) -> None:
    path = tmp_path / "broken.kmsg"
    path.write_text(f"message Broken\nversions 0\n{line}\n")
    with pytest.raises(DefinitionError, match=rf"broken\.kmsg, line 3: {what}"):
        parse_file(path)


def test_versions() -> None:
    assert str(Versions(2, 2)) == "2"
    assert str(Versions(2, 5)) == "2-5"
    assert 5 in Versions(2, 5)
    assert 6 not in Versions(2, 5)


def test_messages_are_those_of_the_target_release() -> None:
    ours = {(message.name, message.versions) for message in library.all_messages()}
    assert ours == {(name, Versions(int(low), int(high))) for name, low, high in facts("message")}


def test_tags_are_unique_and_tagged_fields_are_flexible() -> None:
    for message in library.all_messages():
        for struct in [message.body, *message.structs.values()]:
            for version in message.versions.all():
                tags = [field.tag for field in struct.tagged_fields(version)]
                assert len(tags) == len(set(tags))
                assert not tags or version in message.flexible, (message.name, struct.name, version)


def test_every_element_of_an_array_takes_room() -> None:
    """Therefore the remaining bytes bound the number of elements."""
    for message in library.all_messages():
        for version in message.versions.all():
            for struct in [message.body, *message.structs.values()]:
                for field in struct.plain_fields(version):
                    if field.is_array and field.struct is not None:
                        assert min_size(field.struct, version, version in message.flexible) > 0


def test_stubs_are_current() -> None:
    assert STUB_PATH.read_text("utf-8") == stub_text(), "run python -m penstock.protocol.generate_stubs"
