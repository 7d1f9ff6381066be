"""Schemas by id, by guid, by version, in other contexts; lists and their pages."""

from __future__ import annotations

from typing import Any

import pytest
from played import INT, STRING, Played, calls, record, refused

from penstock.registry import formats
from penstock.registry.subjects import Settings, schemas

ONE = record("a:int")
TWO = record("a:int", "b:int", default=0)
GUID = "095d71cf-1255-6b9d-5e33-0ad575b3df5d"  # of STRING


@pytest.fixture
def played() -> Played:
    """A registry where id 1 is STRING in s and t, and INT in the context .c."""
    played = Played()
    played.put("s", STRING)
    played.put("t", STRING)
    played.put(":.c:s", INT)
    played.put(":.c:u", STRING)
    return played


def test_a_whole_answer(played: Played) -> None:
    same = {"guid": GUID, "schemaType": "AVRO", "schema": STRING, "ts": 1_000, "deleted": False}
    assert list(played.version("s", "1").items()) == [
        *{"subject": "s", "version": 1, "id": 1, **same}.items()
    ]
    assert played.schema_by_id(1) == {"subject": "s", "version": 1, **same}
    assert list(played.schema_by_id(1, fetch_max_id=True))[-3:] == ["maxId", "ts", "deleted"]
    assert played.schema_by_id(1, fetch_max_id=True)["maxId"] == 1
    assert played.schema_by_guid(GUID) == same
    assert played.lookup("t", {"schema": STRING}) == {
        "subject": "t",
        "version": 1,
        "id": 1,
        "guid": GUID,
        "schemaType": "AVRO",
        "schema": STRING,
    }


def test_ids_are_those_of_a_context(played: Played) -> None:
    assert played.schema_by_id(1, subject="t")["subject"] == "t"
    assert played.schema_by_id(1, subject=":.c:")["schema"] == INT
    assert played.schema_by_id(1, subject=":.c:s")["subject"] == ":.c:s"
    assert played.schema_by_id(2, subject="u")["subject"] == ":.c:u", "the subject is looked for everywhere"
    assert played.schema_by_id(1, subject="nobody")["subject"] == "s"
    for subject in (None, "", "nobody", ":.c:s", ":.d:"):
        with refused(40403, "Schema 2 not found"):
            played.schema_by_id(2, subject=subject)
    with refused(40403, "Schema -1 not found"):
        played.schema_by_id(-1)


def test_subjects_and_versions_of_an_id(played: Played) -> None:
    assert played.subjects_of_id(1) == ["s", "t"]
    assert played.subjects_of_id(2, subject="u") == [":.c:u"]
    assert played.versions_of_id(1, limit=1, offset=1) == [{"subject": "t", "version": 1}]
    played.do(played.delete_subject("s"))
    assert played.subjects_of_id(1) == ["t"]
    assert played.subjects_of_id(1, deleted=True) == ["s", "t"]
    for ask in (played.subjects_of_id, played.versions_of_id):
        with refused(40403, "Schema not found"):
            ask(9)


def test_of_the_versions_with_an_id_the_latest_that_is_there_counts() -> None:
    played = Played()
    played.do(played.set_mode("s", {"mode": "IMPORT"}))
    for version in (1, 2, 3):
        played.put("s", STRING, id=7, version=version)
    played.do(played.delete_version("s", "3"))
    assert played.versions_of_id(7) == [{"subject": "s", "version": 2}]
    for version in ("1", "2"):
        played.do(played.delete_version("s", version))
    assert played.versions_of_id(7, deleted=True) == [{"subject": "s", "version": 3}]
    assert played.versions_of_id(7) == []
    played.do(played.delete_version("s", "3", permanent=True))
    assert played.schema_by_id(7)["version"] == 2


def test_a_schema_that_very_many_subjects_share_costs_each_as_much_as_the_first() -> None:
    """The keys of most topics are strings, and so share one schema."""

    def work(subjects: int) -> list[int]:
        played = Played()
        for number in range(subjects):
            played.put(f"topic-{number}-key", STRING)
        return [
            calls(lambda: played.put("one-more-key", STRING)),
            calls(lambda: played.schema_by_id(1)),
            calls(lambda: played.lookup("topic-0-key", {"schema": STRING})),
            calls(lambda: played.schemas(limit=1)) // subjects,
        ]

    for many, few in zip(work(400), work(40), strict=True):
        assert many < 2 * few


def test_versions_are_not_parsed_again_to_be_told_from_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are more versions than are kept parsed."""
    monkeypatch.setattr(schemas, "PARSED_MAX", 10)
    parsed: list[str] = []
    parse = formats.parse

    def counted(*asked: Any, **options: Any) -> Any:
        parsed.append(asked[1])
        return parse(*asked, **options)

    monkeypatch.setattr(schemas.formats, "parse", counted)
    played = Played()
    played.do(played.set_config("s", {"compatibility": "NONE"}))
    for number in range(30):
        played.put("s", record(f"f{number}:int"))
    parsed.clear()
    played.put("s", ONE)
    assert len(parsed) <= 5, "itself, to look for it and to register it; the latest"
    assert set(parsed) <= {ONE, record("f29:int")}
    played.do(played.delete_version("s", "1"))
    parsed.clear()
    assert played.lookup("s", {"schema": ONE.replace(",", ", ")})["version"] == 31
    assert len(parsed) <= 2, "the deletion of one has not made the others forgotten"


def test_contexts_without_a_subject_are_passed_over() -> None:
    played = Played()
    played.put("s", STRING)

    def look() -> None:
        with refused(40403):
            played.lookup("s", {"schema": TWO})

    few = calls(look)
    for number in range(50):
        played.put(f":.c{number}:t", STRING)
    assert calls(look) < 2 * few + 1_000, "each is named, and no more"
    played.put(":.c7:s", TWO)
    assert played.lookup("s", {"schema": TWO})["subject"] == ":.c7:s"


def test_guids_are_the_same_in_all_contexts(played: Played) -> None:
    assert played.ids_of_guid(GUID) == [{"context": ".", "id": 1}, {"context": ".c", "id": 2}]
    assert played.ids_of_guid(GUID.replace("-", "")) == played.ids_of_guid(GUID)
    assert played.ids_of_guid("nonsense") == []
    with refused(40403, "Schema nonsense not found"):
        played.schema_by_guid("nonsense")
    for subject in ("s", "t"):
        played.do(played.delete_subject(subject))
        played.do(played.delete_subject(subject, permanent=True))
    assert played.ids_of_guid(GUID) == [{"context": ".c", "id": 2}]
    assert played.schema_by_guid(GUID)["schema"] == STRING


def test_a_subject_without_a_context_is_looked_for_in_all(played: Played) -> None:
    assert played.version("u", "1")["subject"] == ":.c:u"
    assert played.lookup("u", {"schema": STRING})["subject"] == ":.c:u"
    assert played.lookup("s", {"schema": INT})["subject"] == ":.c:s"
    with refused(40401, "Subject ':.d:u' not found."):
        played.version(":.d:u", "1")
    with refused(40401, "Subject 'v' not found."):
        played.lookup("v", {"schema": STRING})
    with refused(40403, "Schema not found"):
        played.lookup("s", {"schema": ONE})


def test_lookups_of_deleted_schemas(played: Played) -> None:
    played.do(played.delete_subject("s"))
    with refused(40401):
        played.lookup("s", {"schema": STRING})
    assert played.lookup("s", {"schema": STRING}, deleted=True)["version"] == 1


def test_other_ways_to_print_a_schema() -> None:
    played = Played()
    played.put("s", record("x:int", name="S"))
    body = {"schema": record("s:S"), "references": [{"name": "S", "subject": "s", "version": -1}]}
    first = played.do(played.register("r", body, format="resolved"))
    stored = played.version("r", "1")
    assert stored["references"] == [{"name": "S", "subject": "s", "version": 1}]
    for answer in (
        first,
        played.registered("r", body, format="resolved"),
        played.version("r", "1", format="resolved"),
        played.lookup("r", body, format="resolved"),
        played.schema_by_id(2, format="resolved"),
        played.schema_by_guid(stored["guid"], format="resolved"),
    ):
        assert '"fields":[{"name":"x","type":"int"}]' in answer["schema"]
        assert answer["guid"] == stored["guid"]
    assert '"x"' not in stored["schema"]


def test_references_are_shown_with_their_context() -> None:
    played = Played()
    played.put(":.c:s", record("x:int", name="S"))
    played.put(":.c:r", record("s:S"), references=[{"name": "S", "subject": "s", "version": 1}])
    for answer in (
        played.version(":.c:r", "1", reference_format="qualified"),
        played.schema_by_id(2, subject=":.c:", reference_format="qualified"),
    ):
        assert answer["references"] == [{"name": "S", "subject": ":.c:s", "version": 1}]
    assert played.version(":.c:r", "1")["references"][0]["subject"] == "s"
    assert played.referenced_by(":.c:s", "latest") == [2]


# Lists.


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        (None, [":.c:s", ":.c:u", ":.cd:s", "a", "s", "s2"]),
        (":*:", [":.c:s", ":.c:u", ":.cd:s", "a", "s", "s2"]),
        (":*:s", [":.c:s", ":.cd:s", "s", "s2"]),
        ("", ["a", "s", "s2"]),
        ("s", ["s", "s2"]),
        (":.c", [":.c:s", ":.c:u", ":.cd:s"]),
        (":.c:", [":.c:s", ":.c:u"]),
        (":.c:u", [":.c:u"]),
        ("x", []),
    ],
)
def test_prefixes(prefix: str | None, expected: list[str]) -> None:
    played = Played()
    for subject in ("s2", "s", "a", ":.c:u", ":.c:s", ":.cd:s"):
        played.put(subject, STRING)
    assert played.subjects(subject_prefix=prefix) == expected
    if prefix is not None:
        assert [each["subject"] for each in played.schemas(subject_prefix=prefix)] == expected


def test_lists_of_schemas() -> None:
    played = Played()
    played.do(played.set_config(None, {"compatibility": "NONE"}))
    played.ids("a", ONE, TWO)
    played.put("b", STRING, ruleSet={"encodingRules": [{"name": "r", "type": "ENC", "mode": "WRITE"}]})
    played.put("b", INT, ruleSet={})
    played.do(played.delete_version("a", "2"))
    played.do(played.delete_version("b", "1"))

    def listed(**asked: object) -> list[tuple[str, int]]:
        return [(each["subject"], each["version"]) for each in played.schemas(**asked)]

    assert listed() == [("a", 1), ("b", 2)]
    assert listed(deleted=True) == [("a", 1), ("a", 2), ("b", 1), ("b", 2)]
    assert listed(latest_only=True) == [("a", 1), ("b", 2)]
    assert listed(latest_only=True, deleted=True) == [("a", 2), ("b", 2)]
    assert listed(deleted=True, rule_type="ENC") == [("b", 1)]
    assert listed(deleted=True, offset=1, limit=2) == [("a", 2), ("b", 1)]
    assert listed(deleted=True, offset=-5, limit=-1) == listed(deleted=True)


def test_pages_are_as_large_as_the_settings_let_them_be() -> None:
    played = Played(Settings(subjects_default_limit=2, subjects_max_limit=3))
    for number in range(5):
        played.put(f"s{number}", STRING)
        played.put("t", record(f"f{number}:int", default=0))
    assert [len(played.subjects(limit=limit)) for limit in (-1, 0, 1, 3, 4)] == [2, 2, 1, 3, 2]
    assert played.subjects(offset=4) == ["s4", "t"]
    assert played.versions("t", offset=3) == [4, 5]


def test_contexts_are_those_that_had_schemas(played: Played) -> None:
    played.do(played.set_config(":.d:", {"compatibility": "NONE"}))
    assert played.contexts() == [".", ".c"]
    assert played.contexts(prefix=".c") == [".c"]
    assert played.contexts(offset=1) == [".c"]


def test_the_formats() -> None:
    assert Played().schema_types() == ["JSON", "PROTOBUF", "AVRO"]
