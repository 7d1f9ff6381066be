"""Configurations and modes: global, of a context, of a subject, and which of them applies."""

from __future__ import annotations

import pytest
from played import INT, STRING, Played, record, refused

from penstock.registry.subjects import Settings

EVERYWHERE = ":.__GLOBAL:"


def test_a_configuration_is_changed_field_by_field() -> None:
    played = Played()
    answer = played.do(played.set_config("s", {"compatibility": "full", "normalize": True, "alias": "t"}))
    assert answer == {"alias": "t", "normalize": True, "compatibility": "FULL"}
    assert played.config("s") == {"alias": "t", "normalize": True, "compatibilityLevel": "FULL"}
    answer = played.do(played.set_config("s", {"normalize": None, "compatibilityGroup": "g"}))
    assert answer == {"alias": "t", "compatibility": "FULL", "compatibilityGroup": "g"}
    assert played.do(played.delete_config("s")) == {
        "alias": "t",
        "compatibilityLevel": "FULL",
        "compatibilityGroup": "g",
    }
    with refused(40401, "Subject 's' not found."):
        played.delete_config("s")


def test_which_configuration_holds() -> None:
    played = Played(Settings(compatibility_level="FULL"))

    def level(subject: str | None) -> str:
        return played.config(subject, default_to_global=True)["compatibilityLevel"]

    def levels() -> list[str]:
        return [level(None), level("s"), level(":.c:"), level(":.c:s"), level(EVERYWHERE)]

    assert levels() == ["FULL"] * 5
    played.do(played.set_config(EVERYWHERE, {"compatibility": "NONE"}))
    assert levels() == ["NONE"] * 5
    played.do(played.set_config(None, {"compatibility": "FORWARD"}))
    assert levels() == ["FORWARD", "FORWARD", "NONE", "NONE", "NONE"]
    played.do(played.set_config(":.c:", {"compatibility": "BACKWARD"}))
    assert levels() == ["FORWARD", "FORWARD", "BACKWARD", "BACKWARD", "NONE"]
    played.do(played.set_config(":.c:s", {"compatibility": "FULL"}))
    played.do(played.set_config("s", {"alias": "t"}))
    assert levels() == ["FORWARD", "FULL", "BACKWARD", "FULL", "NONE"], (
        "one that has no level has the default"
    )
    assert played.do(played.delete_config(None)) == {"compatibilityLevel": "FORWARD"}
    assert played.do(played.delete_config(None)) == {"compatibilityLevel": "FULL"}


def test_a_subject_takes_from_the_top_level_what_it_does_not_say() -> None:
    played = Played()
    played.do(
        played.set_config(None, {"normalize": True, "compatibilityGroup": "g", "compatibility": "NONE"})
    )
    played.do(played.set_config("s", {"compatibility": "FULL"}))
    own = {"compatibilityLevel": "FULL"}
    assert played.config("s") == own
    assert played.config("s", default_to_global=True) == {**own, "normalize": True, "compatibilityGroup": "g"}


@pytest.mark.parametrize("top", [None, "", ":.:"])
def test_the_default_context_is_the_top_level(top: str | None) -> None:
    played = Played()
    played.do(played.set_config(top, {"compatibility": "NONE"}))
    played.do(played.set_mode(top, {"mode": "READONLY"}))
    assert played.config(None) == {"compatibilityLevel": "NONE"}
    assert played.mode(top) == played.mode(None) == {"mode": "READONLY"}
    assert [each.key for each in played.log] == [
        b'{"keytype":"CONFIG","magic":0}',
        b'{"keytype":"MODE","magic":0}',
    ]


def test_what_is_not_configured() -> None:
    played = Played()
    with refused(40408, "Subject 's' does not have subject-level compatibility configured"):
        played.config("s")
    with refused(40409, "Subject 's' does not have subject-level mode configured"):
        played.mode("s")
    assert played.config(EVERYWHERE) == {"compatibilityLevel": "BACKWARD"}
    assert played.mode(EVERYWHERE) == {"mode": "READWRITE"}


@pytest.mark.parametrize(
    ("body", "code", "message"),
    [
        ({"compatibility": "SOME"}, 42203, "Invalid compatibility level. Valid values are none, backward,"),
        ({"compatibilityPolicy": "logical"}, 42203, "LOGICAL is not supported, use STRICT or LENIENT"),
        ({"normalize": "maybe"}, 400, "config.normalize: expected true or false, found 'maybe'"),
        ([], 400, "expected an object"),
    ],
)
def test_configurations_that_are_none(body: object, code: int, message: str) -> None:
    with refused(code, message):
        Played().set_config("s", body)


def test_settings_of_subjects_that_may_not_be() -> None:
    for subject in ("a\nb", "__GLOBAL", ":.c:__EMPTY"):
        with refused(42208):
            Played().set_config(subject, {})
        with refused(42208):
            Played().set_mode(subject, {"mode": "READONLY"})


def test_no_configuration_changes_where_nothing_may_be_written() -> None:
    played = Played()
    played.do(played.set_config("s", {"compatibility": "NONE"}))
    played.do(played.set_mode(None, {"mode": "READONLY"}))
    with refused(42205, "Subject s in context  is in read-only mode"):
        played.set_config("s", {"compatibility": "FULL"})
    with refused(42205, "Subject s in context "):
        played.delete_config("s")
    with refused(42205, "Subject null in context  is in read-only mode"):
        played.set_config(None, {"compatibility": "FULL"})
    assert played.do(played.set_config(":.c:", {"compatibility": "FULL"})) == {"compatibility": "FULL"}


def test_an_alias_is_another_name_in_the_same_context() -> None:
    played = Played()
    played.do(played.set_config("s", {"alias": "t"}))
    played.do(played.set_config(":.c:s", {"alias": "t"}))
    played.do(played.set_config(":.d:s", {"alias": ":.c:t"}))
    assert [played.aliased(each) for each in ("s", ":.c:s", ":.d:s", "t", "")] == [
        *("t", ":.c:t", ":.c:t", "t", "")
    ]
    played.put("t", STRING)
    played.put(":.c:t", STRING)
    listed = played.schemas(subject_prefix="s", aliases=True)
    assert [(each["subject"], each["aliases"]) for each in listed] == [("t", ["s"])]
    assert [each.get("aliases") for each in played.schemas(subject_prefix=":.c:", aliases=True)] == [
        [":.c:s"]
    ]


# Modes.


def test_which_mode_holds() -> None:
    played = Played()

    def modes() -> list[str]:
        asked = (None, "s", ":.c:", ":.c:s")
        return [played.mode(each, default_to_global=True)["mode"] for each in asked]

    played.do(played.set_mode(EVERYWHERE, {"mode": "READONLY"}))
    assert modes() == ["READONLY"] * 4
    played.do(played.set_mode(None, {"mode": "readwrite"}))
    played.do(played.set_mode(":.c:", {"mode": "IMPORT"}))
    assert modes() == ["READWRITE", "READWRITE", "IMPORT", "IMPORT"]
    played.do(played.set_mode(":.c:s", {"mode": "READONLY_OVERRIDE"}))
    assert modes() == ["READWRITE", "READWRITE", "IMPORT", "READONLY_OVERRIDE"]


def test_a_mode_is_answered_as_it_was_asked_for_and_null_takes_it_away() -> None:
    played = Played()
    assert played.do(played.set_mode("s", {"mode": "readonly"})) == {"mode": "readonly"}
    assert played.do(played.set_mode("s", {"mode": None})) == {"mode": None}
    with refused(40409):
        played.mode("s")
    assert played.do(played.set_mode("s", {})) == {}
    with refused(42204, "Invalid mode. Valid values are READWRITE, READONLY, IMPORT and FORWARD."):
        played.set_mode("s", {"mode": "WRITE"})


def test_forward_is_for_all_contexts_together() -> None:
    played = Played()
    for subject in (None, "s", ":.c:"):
        with refused(42204, "Forward mode only supported on global level"):
            played.set_mode(subject, {"mode": "FORWARD"})
    played.do(played.set_mode(EVERYWHERE, {"mode": "FORWARD"}))
    assert played.put("s", STRING, id=4)["id"] == 4, "ids come from where schemas are forwarded from"


def test_modes_may_be_fixed() -> None:
    played = Played(Settings(allows_mode_changes=False))
    with refused(42205, "Mode changes are not allowed"):
        played.set_mode("s", {"mode": "READONLY"})
    with refused(42205, "Mode changes are not allowed"):
        played.delete_mode(None)


@pytest.mark.parametrize("scope", ["s", ":.c:", None, EVERYWHERE])
def test_an_import_needs_an_empty_scope(scope: str | None) -> None:
    played = Played()
    subject = ":.c:s" if scope == ":.c:" else "s"
    played.put("u" if scope == "s" else ":.d:u", STRING) if scope in ("s", ":.c:") else None
    played.put(subject, STRING)
    with refused(42205, "Cannot import since found existing subjects"):
        played.set_mode(scope, {"mode": "IMPORT"})
    played.do(played.delete_subject(subject))
    decision = played.set_mode(scope, {"mode": "IMPORT"})
    kinds = [each.key.split(b'"')[3].decode() for each in decision.records]
    assert kinds == ["SCHEMA", "CLEAR_SUBJECT", "MODE"]
    played.do(decision)
    assert subject not in played.subjects(deleted=True)
    assert len(played.subjects()) == (1 if scope in ("s", ":.c:") else 0), "others stay"
    assert played.put(subject, INT, id=1 if scope in (None, EVERYWHERE, ":.c:") else 2)["version"] == 1


def test_an_import_may_be_forced_upon_what_is_there() -> None:
    played = Played()
    played.put("s", STRING)
    played.do(played.set_mode("s", {"mode": "IMPORT"}, force=True))
    assert played.put("s", INT, id=9)["version"] == 2
    assert played.do(played.set_mode("s", {"mode": "IMPORT"})) == {"mode": "IMPORT"}, "it is in it already"


def test_an_import_does_not_take_what_others_refer_to() -> None:
    played = Played()
    played.put("s", record("x:int", name="S"))
    played.put("r", record("s:S"), references=[{"name": "S", "subject": "s", "version": 1}])
    played.do(played.delete_version("r", "1"))
    played.do(played.delete_version("s", "1"))
    with refused(42206, "One or more references exist to the schema {magic=1,keytype=SCHEMA,subject=s"):
        played.set_mode("s", {"mode": "IMPORT"})


def test_modes_are_deleted_with_those_below() -> None:
    played = Played()
    for subject in (None, "s", ":.c:", ":.c:s", ":.d:s"):
        played.do(played.set_mode(subject, {"mode": "READONLY"}))
    assert played.do(played.delete_mode(":.c:")) == {"mode": "READONLY"}
    assert played.mode(":.c:s") == {"mode": "READONLY"}
    with refused(40401, "Subject ':.c:' not found."):
        played.delete_mode(":.c:")
    assert played.do(played.delete_mode(":.c:", recursive=True)) == {}
    with refused(40409):
        played.mode(":.c:s")
    assert played.do(played.delete_mode(None, recursive=True)) == {"mode": "READONLY"}
    with refused(40409):
        played.mode("s")
    assert played.mode(":.d:s") == {"mode": "READONLY"}
