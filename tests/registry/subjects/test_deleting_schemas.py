"""Deletions: soft, permanent, and refused."""

from __future__ import annotations

import pytest
from played import INT, STRING, Played, record, refused

ONE = record("a:int")
TWO = record("a:int", "b:int", default=0)


@pytest.fixture
def played() -> Played:
    """A registry in which subject s has two versions."""
    played = Played()
    played.ids("s", ONE, TWO)
    return played


def test_a_version_goes_softly_and_then_for_good(played: Played) -> None:
    with refused(40407, "Subject 's' Version 1 was not deleted first before being permanently deleted"):
        played.delete_version("s", "1", permanent=True)
    assert played.do(played.delete_version("s", "1")) == 1
    assert played.versions("s") == [2]
    assert played.versions("s", deleted=True) == [1, 2]
    assert played.versions("s", deleted_only=True) == [1]
    assert played.versions("s", deleted_as_negative=True) == [-1, 2]
    assert played.version("s", "1", deleted=True)["deleted"] is True
    with refused(40402, "Version 1 not found."):
        played.version("s", "1")
    with refused(40406, "Subject 's' Version 1 was soft deleted.Set permanent=true to delete permanently"):
        played.delete_version("s", "1")
    assert played.schema_by_id(1)["deleted"] is True, "what was written with it can still be read"
    assert played.do(played.delete_version("s", "1", permanent=True)) == 1
    assert played.versions("s", deleted=True) == [2]
    with refused(40402, "Version 1 not found."):
        played.delete_version("s", "1", permanent=True)
    with refused(40403, "Schema 1 not found"):
        played.schema_by_id(1)


def test_the_latest_is_the_latest_that_is_there(played: Played) -> None:
    assert played.do(played.delete_version("s", "latest")) == 2
    assert played.do(played.delete_version("s", "-1")) == 1
    with refused(40402, "Version -1 not found."):
        played.delete_version("s", "latest")
    assert played.put("s", ONE)["version"] == 3


def test_a_subject_goes_softly_and_then_for_good(played: Played) -> None:
    played.do(played.set_config("s", {"compatibility": "NONE"}))
    played.do(played.set_mode("s", {"mode": "READWRITE"}))
    with refused(40405, "Subject 's' was not deleted first before being permanently deleted"):
        played.delete_subject("s", permanent=True)
    assert played.do(played.delete_subject("s")) == [1, 2]
    assert (played.subjects(), played.subjects(deleted=True)) == ([], ["s"])
    assert played.subjects(deleted_only=True) == ["s"]
    with refused(40404, "Subject 's' was soft deleted.Set permanent=true to delete permanently"):
        played.delete_subject("s")
    with refused(40401, "Subject 's' not found."):
        played.versions("s")
    assert played.config("s") == {"compatibilityLevel": "NONE"}, "it stays until the subject is gone"
    assert played.do(played.delete_subject("s", permanent=True)) == [1, 2]
    with refused(40408):
        played.config("s")
    with refused(40409):
        played.mode("s")
    for permanent in (False, True):
        with refused(40401, "Subject 's' not found."):
            played.delete_subject("s", permanent=permanent)


def test_the_last_version_takes_the_settings_of_its_subject_with_it(played: Played) -> None:
    played.do(played.set_config("s", {"compatibility": "NONE"}))
    played.do(played.delete_subject("s"))
    played.do(played.delete_version("s", "1", permanent=True))
    assert played.config("s") == {"compatibilityLevel": "NONE"}
    played.do(played.delete_version("s", "2", permanent=True))
    with refused(40408):
        played.config("s")


def test_a_partly_deleted_subject_is_deleted_as_far_as_it_is_there(played: Played) -> None:
    played.do(played.delete_version("s", "1"))
    assert played.do(played.delete_subject("s")) == [2]
    assert played.do(played.delete_subject("s", permanent=True)) == [1, 2]
    assert played.schemas(deleted=True) == []


def test_nothing_is_deleted_where_nothing_may_be_written(played: Played) -> None:
    for mode in ("READONLY", "READONLY_OVERRIDE"):
        played.do(played.set_mode("s", {"mode": mode}))
        with refused(42205, "Subject s in context  is in read-only mode"):
            played.delete_version("s", "1")
        with refused(42205):
            played.delete_subject("s")


def test_what_others_refer_to_stays() -> None:
    played = Played()
    played.ids("s", record("x:int", name="S"), record("x:int", "y:int", name="S", default=0))
    refers = [{"name": "S", "subject": "s", "version": 1}]
    assert played.put("r", record("s:S"), references=refers)["id"] == 3
    assert played.referenced_by("s", "1") == [3]
    assert played.referenced_by("s", "2") == []
    key = "{magic=1,keytype=SCHEMA,subject=s,version=1}"
    with refused(42206, f"One or more references exist to the schema {key}."):
        played.delete_version("s", "1")
    with refused(42206, key):
        played.delete_subject("s")
    played.do(played.delete_version("s", "2"))
    played.do(played.delete_version("r", "1"))
    assert (played.referenced_by("s", "1"), played.referenced_by("s", "1", deleted=True)) == ([], [3])
    # A soft delete is allowed now, but no permanent one: deleted schemas that refer to it can still be read.
    played.do(played.delete_subject("s"))
    with refused(42206, key):
        played.delete_version("s", "1", permanent=True)
    with refused(42206, key):
        played.delete_subject("s", permanent=True)
    played.do(played.delete_version("r", "1", permanent=True))
    assert played.do(played.delete_subject("s", permanent=True)) == [1, 2]


def test_a_subject_may_refer_to_itself() -> None:
    played = Played()
    played.do(played.set_config("s", {"compatibility": "NONE"}))
    played.put("s", record("x:int", name="S"))
    played.put("s", record("s:S"), references=[{"name": "S", "subject": "s", "version": 1}])
    with refused(42206):
        played.delete_version("s", "1")
    played.do(played.delete_subject("s"))
    decision = played.delete_subject("s", permanent=True)
    assert [b'"version":2' in each.key for each in decision.records[:2]] == [True, False], "the latest first"
    played.do(decision)
    assert played.subjects(deleted=True) == []


def test_a_deleted_subject_does_not_take_what_came_after_it() -> None:
    played = Played()
    played.put("s", STRING)
    played.do(played.delete_subject("s"))
    played.do(played.set_config("s", {"compatibility": "NONE"}))
    played.put("s", INT)
    again = Played(log=played.log)
    assert again.versions("s") == [2]


def test_a_context_is_deleted_once_it_is_empty() -> None:
    played = Played()
    played.put(":.c:s", STRING)
    assert played.contexts() == [".", ".c"]
    for _ in range(2):
        with refused(42211, "The specified context ':.c:' is not empty."):
            played.delete_context(":.c:")
        played.do(played.delete_subject(":.c:s", permanent=not played.subjects()))
    assert played.contexts() == [".", ".c"]
    assert played.do(played.delete_context(":.c:")) is None
    assert played.contexts() == ["."]


@pytest.mark.parametrize("version", ["0", "-2", "1.0", "", "first", "2147483648", "9" * 5_000, "١"])
def test_versions_that_are_none(played: Played, version: str) -> None:
    message = f"The specified version '{version}' is not a valid version id. Allowed values are between"
    with refused(42202, message):
        played.delete_version("s", version)
    with refused(42202, message):
        played.version("s", version)
    with refused(42202, message):
        played.compatibility("s", {"schema": ONE}, version)
    with refused(42202, message):
        played.referenced_by("s", version)


def test_versions_and_subjects_that_are_not_there(played: Played) -> None:
    with refused(40402, "Version 3 not found."):
        played.delete_version("s", "3")
    with refused(40401, "Subject 't' not found."):
        played.delete_version("t", "1")
    with refused(40401, "Subject 't' not found."):
        played.version("t", "latest")
    assert played.version("s", " LATEST ")["version"] == 2
    assert played.version("s", "+1")["version"] == 1


def test_a_compacted_topic_does_not_bring_back_what_was_deleted() -> None:
    played = Played()
    played.do(played.set_mode("s", {"mode": "IMPORT"}))
    played.put("s", STRING, id=1, version=3)
    played.do(played.delete_subject("s"))
    played.put("s", INT, id=2, version=1)
    played.do(played.delete_subject("s"))
    deletions = [each for each in played.log if b"DELETE_SUBJECT" in each.key]
    assert [each.value for each in deletions] == [b'{"subject":"s","version":3}'] * 2
    again = Played(log=[each for each in played.log if each is not deletions[0]])
    assert again.versions("s", deleted_only=True) == [1, 3]
