"""Every endpoint of the REST API, over HTTP, on a real node."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest

from penstock.testing import Cluster
from registry_node import Answer, ask, avro, started

V1 = "application/vnd.schemaregistry.v1+json"
Ask = Callable[..., Answer]


@pytest.fixture(scope="module")
def url(penstock_cluster: Cluster) -> Iterator[str]:
    server = started(penstock_cluster.bootstrap_servers, uuid.uuid4().hex[:8])
    yield server.url
    server.close()


@pytest.fixture
def call(url: str) -> Ask:
    def asked(method: str, target: str, body: Any = None, **headers: str) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return ask(url, method, target, body, named)

    return asked


@pytest.fixture
def subject() -> str:
    return f"s-{uuid.uuid4().hex[:12]}"


def _registered(call: Ask, subject: str, *bodies: dict[str, Any]) -> list[int]:
    answers = [call("POST", f"/subjects/{quote(subject, safe='')}/versions", body) for body in bodies]
    assert [answer.status for answer in answers] == [200] * len(bodies), answers
    return [answer.body["id"] for answer in answers]


def test_what_is_there_to_see_that_it_lives(call: Ask) -> None:
    assert call("GET", "/").body == {}
    assert call("POST", "/", {"any": "thing"}).body == {}
    scope = call("GET", "/v1/metadata/id").body["scope"]
    assert scope["path"] == []
    assert scope["clusters"]["kafka-cluster"]
    assert scope["clusters"]["schema-registry-cluster"].startswith("registry-")
    assert call("GET", "/v1/metadata/version").body["version"]
    assert sorted(call("GET", "/schemas/types").body) == ["AVRO", "JSON", "PROTOBUF"]


def test_a_schema_is_found_by_subject_version_id_guid_and_text(call: Ask, subject: str) -> None:
    first, second = avro("R", "a"), avro("R", "a", "b?")
    ids = _registered(call, subject, first, second)
    assert ids[0] < ids[1]
    assert _registered(call, subject, first) == [ids[0]]
    assert call("GET", f"/subjects/{subject}/versions").body == [1, 2]
    latest = call("GET", f"/subjects/{subject}/versions/latest").body
    assert (latest["subject"], latest["version"], latest["id"]) == (subject, 2, ids[1])
    assert call("GET", f"/subjects/{subject}/versions/-1").body == latest
    assert call("GET", f"/subjects/{subject}/versions/2").body == latest
    text = call("GET", f"/subjects/{subject}/versions/1/schema")
    assert json.loads(text.text)["fields"] == [{"name": "a", "type": "long"}]
    assert call("GET", f"/schemas/ids/{ids[0]}/schema").text == text.text
    assert call("GET", f"/schemas/ids/{ids[0]}").body["schema"] == text.text
    assert call("GET", f"/schemas/ids/{ids[0]}/subjects").body == [subject]
    assert call("GET", f"/schemas/ids/{ids[0]}/versions").body == [{"subject": subject, "version": 1}]
    guid = latest["guid"]
    assert call("GET", f"/schemas/guids/{guid}").body["schema"] == latest["schema"]
    assert call("GET", f"/schemas/guids/{guid}/ids").body == [{"context": ".", "id": ids[1]}]
    found = call("POST", f"/subjects/{subject}", first).body
    assert (found["version"], found["id"]) == (1, ids[0])
    assert subject in call("GET", f"/subjects?subjectPrefix={subject[:4]}").body
    schemas = call("GET", f"/schemas?subjectPrefix={subject}&latestOnly=true").body
    assert [(each["subject"], each["version"]) for each in schemas] == [(subject, 2)]
    page = call("GET", f"/schemas?subjectPrefix={subject}&offset=1&limit=1").body
    assert [each["version"] for each in page] == [2]


def test_the_other_formats(call: Ask, subject: str) -> None:
    proto = {"schemaType": "PROTOBUF", "schema": 'syntax = "proto3"; message P { int32 a = 1; }'}
    [number] = _registered(call, f"{subject}-p", proto)
    assert call("GET", f"/schemas/ids/{number}").body["schemaType"] == "PROTOBUF"
    document = {"schemaType": "JSON", "schema": '{"type": "object", "properties": {"a": {"type": "string"}}}'}
    [number] = _registered(call, f"{subject}-j", document)
    assert call("GET", f"/schemas/ids/{number}").body["schemaType"] == "JSON"


def test_a_subject_may_have_any_characters(call: Ask, subject: str) -> None:
    strange = f"{subject}/a b?ü%"
    _registered(call, strange, avro("R", "a"))
    assert call("GET", f"/subjects/{quote(strange, safe='')}/versions").body == [1]
    assert strange in call("GET", "/subjects").body


def test_a_subject_may_not_have_control_characters(call: Ask, subject: str) -> None:
    for strange in ("\n", "\r\n", "\0", "\x85"):
        path = f"/subjects/{subject}{quote(strange)}/versions"
        assert call("POST", path, avro("R", "a")).error == 42208
        assert call("GET", path).error == 40401


def test_references_are_followed_and_protect_what_they_refer_to(call: Ask, subject: str) -> None:
    _registered(call, f"{subject}-inner", avro("Inner", "a"))
    outer = {
        "schema": '{"type": "record", "name": "Outer", "fields": [{"name": "i", "type": "Inner"}]}',
        "references": [{"name": "Inner", "subject": f"{subject}-inner", "version": 1}],
    }
    [number] = _registered(call, subject, outer)
    assert call("GET", f"/subjects/{subject}-inner/versions/1/referencedby").body == [number]
    refused = call("DELETE", f"/subjects/{subject}-inner/versions/1")
    assert (refused.status, refused.error) == (422, 42206)


def test_compatibility_is_checked_and_explained(call: Ask, subject: str) -> None:
    _registered(call, subject, avro("R", "a"))
    good, bad = avro("R", "a", "b?"), avro("R", "a", "b")
    for path in (
        f"/compatibility/subjects/{subject}/versions",
        f"/compatibility/subjects/{subject}/versions/1",
    ):
        assert call("POST", path, good).body == {"is_compatible": True}
        assert call("POST", f"{path}?verbose=true", good).body == {"is_compatible": True, "messages": []}
        told = call("POST", f"{path}?verbose=true", bad).body
        assert told["is_compatible"] is False
        assert any("READER_FIELD_MISSING_DEFAULT_VALUE" in message for message in told["messages"])
    refused = call("POST", f"/subjects/{subject}/versions", bad)
    assert (refused.status, refused.error) == (409, 40901)
    assert call("POST", f"/compatibility/subjects/{subject}/versions/7", good).error == 40402


def test_configurations_of_all_of_a_subject_and_of_a_context(call: Ask, subject: str) -> None:
    assert call("GET", "/config").body["compatibilityLevel"] == "BACKWARD"
    assert call("GET", f"/config/{subject}").error == 40408
    assert call("GET", f"/config/{subject}?defaultToGlobal=true").body["compatibilityLevel"] == "BACKWARD"
    assert call("PUT", f"/config/{subject}", {"compatibility": "NONE"}).body == {"compatibility": "NONE"}
    assert call("GET", f"/config/{subject}").body["compatibilityLevel"] == "NONE"
    _registered(call, subject, avro("R", "a"), avro("R", "b"))
    assert call("DELETE", f"/config/{subject}").body["compatibilityLevel"] == "NONE"
    assert call("DELETE", f"/config/{subject}").error == 40401
    refused = call("PUT", "/config", {"compatibility": "SOMETIMES"})
    assert (refused.status, refused.error) == (422, 42203)
    context = f"c{subject}"
    assert call("PUT", f"/contexts/.{context}/config", {"compatibility": "FULL"}).status == 200
    assert call("GET", f"/config/:.{context}:").body["compatibilityLevel"] == "FULL"
    assert call("DELETE", f"/contexts/.{context}/config").status == 200


def test_modes_of_a_subject(call: Ask, subject: str) -> None:
    assert call("GET", "/mode").body == {"mode": "READWRITE"}
    assert call("GET", f"/mode/{subject}").error == 40409
    assert call("PUT", f"/mode/{subject}", {"mode": "READONLY"}).body == {"mode": "READONLY"}
    refused = call("POST", f"/subjects/{subject}/versions", avro("R", "a"))
    assert (refused.status, refused.error) == (422, 42205)
    assert call("DELETE", f"/mode/{subject}").body == {"mode": "READONLY"}
    assert call("GET", f"/mode/{subject}?defaultToGlobal=true").body == {"mode": "READWRITE"}
    assert call("PUT", f"/mode/{subject}", {"mode": "SLEEP"}).error == 42204


def test_import_mode_takes_ids_and_versions(call: Ask, subject: str) -> None:
    assert call("PUT", f"/mode/{subject}", {"mode": "IMPORT"}).status == 200
    [number] = _registered(call, subject, {**avro("Imported", "a"), "id": 100_007, "version": 5})
    assert number == 100_007
    assert call("GET", f"/subjects/{subject}/versions").body == [5]
    [other] = _registered(call, f"{subject}-other", avro(f"R{subject.replace('-', '')}", "z"))
    assert other == 100_008


def test_deletes_are_soft_first(call: Ask, subject: str) -> None:
    first, second = avro("R", "a"), avro("R", "a", "b?")
    ids = _registered(call, subject, first, second)
    assert call("DELETE", f"/subjects/{subject}/versions/1?permanent=true").error == 40407
    deleted = call("DELETE", f"/subjects/{subject}/versions/1")
    assert (deleted.status, deleted.text) == (200, "1")
    assert call("GET", f"/subjects/{subject}/versions").body == [2]
    assert call("GET", f"/subjects/{subject}/versions?deleted=true").body == [1, 2]
    assert call("GET", f"/subjects/{subject}/versions?deletedOnly=true").body == [1]
    assert call("GET", f"/subjects/{subject}/versions/1").error == 40402
    assert call("GET", f"/subjects/{subject}/versions/1?deleted=true").body["id"] == ids[0]
    assert call("GET", f"/schemas/ids/{ids[0]}").status == 200
    assert call("DELETE", f"/subjects/{subject}/versions/1?permanent=true").body == 1
    assert call("DELETE", f"/subjects/{subject}?permanent=true").error == 40405
    assert call("DELETE", f"/subjects/{subject}").body == [2]
    assert call("DELETE", f"/subjects/{subject}").error == 40404
    assert subject not in call("GET", "/subjects").body
    assert subject in call("GET", "/subjects?deleted=true").body
    assert subject in call("GET", "/subjects?deletedOnly=true").body
    assert call("DELETE", f"/subjects/{subject}?permanent=true").body == [2]
    assert call("DELETE", f"/subjects/{subject}").error == 40401


def test_contexts_have_subjects_and_ids_of_their_own(call: Ask, subject: str) -> None:
    context = f".c{subject}"
    [number] = _registered(call, subject, avro("R", "a"))
    made = call("POST", f"/contexts/{context}/subjects/{subject}/versions", avro("Other", "b"))
    assert made.body["id"] == 1
    qualified = f":{context}:{subject}"
    assert call("GET", f"/subjects/{qualified}/versions/1").body["id"] == 1
    assert call("GET", f"/contexts/{context}/subjects").body == [qualified]
    assert "Other" in call("GET", f"/contexts/{context}/schemas/ids/1").body["schema"]
    assert context in call("GET", "/contexts").body
    assert call("GET", f"/contexts?contextPrefix={context}").body == [context]
    assert call("GET", f"/contexts/{context}/schemas/ids/{number}").status in (200, 404)
    assert call("DELETE", f"/contexts/{context}").error == 42211
    assert call("DELETE", f"/subjects/{qualified}").status == 200
    assert call("DELETE", f"/subjects/{qualified}?permanent=true").status == 200
    gone = call("DELETE", f"/contexts/{context}")
    assert (gone.status, gone.text) == (204, "")
    assert context not in call("GET", "/contexts").body


def test_an_alias_leads_to_its_subject(call: Ask, subject: str) -> None:
    [number] = _registered(call, subject, avro("R", "a"))
    assert call("PUT", f"/config/{subject}-too", {"alias": subject}).status == 200
    assert call("GET", f"/subjects/{subject}-too/versions/latest").body["id"] == number
    _registered(call, f"{subject}-too", avro("R", "a", "b?"))
    assert call("GET", f"/subjects/{subject}/versions").body == [1, 2]


def test_the_latest_with_metadata(call: Ask, subject: str) -> None:
    owned = {**avro("R", "a"), "metadata": {"properties": {"owner": "ann"}}}
    other = {**avro("R", "a", "b?"), "metadata": {"properties": {"owner": "bob"}}}
    ids = _registered(call, subject, owned, other)
    assert call("GET", f"/subjects/{subject}/metadata?key=owner&value=ann").body["id"] == ids[0]
    assert call("GET", f"/subjects/{subject}/metadata?key=owner&value=eve").error == 40403


def test_what_is_not_there_is_told_by_its_code(call: Ask, subject: str) -> None:
    for method, target, code in [
        ("GET", f"/subjects/{subject}/versions", 40401),
        ("GET", f"/subjects/{subject}/versions/1", 40401),
        ("GET", "/schemas/ids/99999999", 40403),
        ("GET", f"/schemas/guids/{uuid.uuid4()}", 40403),
        ("GET", f"/subjects/{subject}/versions/zero", 42202),
        ("GET", f"/subjects/{subject}/versions/0", 42202),
        ("DELETE", f"/subjects/{subject}", 40401),
    ]:
        refused = call(method, target)
        assert (refused.error, refused.status) == (code, code // 100), target
    assert call("POST", f"/subjects/{subject}", avro("R", "a")).error == 40401


def test_bad_requests_are_told_apart(call: Ask, subject: str) -> None:
    path = f"/subjects/{subject}/versions"
    for method, target, body, headers, status in [
        ("GET", "/nothing", None, {}, 404),
        ("GET", "/schemas/ids/seven", None, {}, 404),
        ("GET", "/schemas?limit=many", None, {}, 404),
        ("PATCH", path, None, {}, 405),
        ("TRACE", path, None, {}, 405),
        ("TRACE", "/nothing", None, {}, 404),
        ("GET", "/subjects/%FF/versions", None, {}, 400),
        ("GET", "/subjects?subjectPrefix=%ED%A0%80", None, {}, 400),
        ("POST", path, "<schema/>", {"Content_Type": "text/xml"}, 415),
        ("GET", "/subjects", None, {"Accept": "text/html"}, 406),
        ("POST", path, "{not json", {}, 400),
        ("POST", path, "[1]", {}, 400),
        ("POST", path, "", {}, 422),
        ("POST", path, " " * (9 << 20), {}, 413),
    ]:
        refused = call(method, target, body, **headers)
        assert (refused.status, refused.error) == (status, status), (method, target, refused)
        assert refused.body["message"]
    invalid = call("POST", path, {"schema": '{"type": "nothing"}'})
    assert (invalid.status, invalid.error) == (422, 42201)
    assert call("POST", path, {"schema": "{}", "schemaType": "XML"}).error == 42201
    assert call("GET", "/subjects", Accept="application/json").type == "application/json"
    assert call("GET", "/subjects").type == V1
    assert call("HEAD", "/subjects").text == ""


def test_what_is_too_large_for_the_topic_is_refused(call: Ask, subject: str) -> None:
    large = {"schema": json.dumps({"type": "record", "name": "R", "doc": "x" * 1_100_000, "fields": []})}
    refused = call("POST", f"/subjects/{subject}/versions", large)
    assert refused.status == 422, refused
    assert call("POST", f"/subjects/{subject}/versions", avro("R", "a")).status == 200
