"""The meaning of paths, content types and group members, without a cluster."""

from __future__ import annotations

import json

import pytest

from penstock.client.config import ClientConfig
from penstock.client.groups.heartbeats import Joined
from penstock.registry.api import contexts, media
from penstock.registry.api.asked import Asked, whole_number
from penstock.registry.api.resources import RESOURCES
from penstock.registry.api.routing import find, methods
from penstock.registry.store.election import NOBODY, Election, Identity, assignment, choose
from penstock.registry.subjects import RequestRefused


def _rewritten(target: str) -> tuple[str, dict[str, str]]:
    path, _, query = target.partition("?")
    asked = tuple(tuple(each.split("=")) for each in query.split("&") if each)
    segments, found = contexts.rewritten(path.strip("/").split("/"), asked)  # type: ignore[arg-type]
    return "/" + "/".join(segments), dict(found)


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        ("/subjects/s/versions", "/subjects/s/versions", {}),
        ("/contexts", "/contexts", {}),
        ("/contexts/.c", "/contexts/:.c:", {}),
        ("/contexts/c", "/contexts/:.c:", {}),
        ("/contexts/:.c:/subjects/s/versions/1", "/subjects/:.c:s/versions/1", {}),
        ("/contexts/.c/subjects/:.d:s", "/subjects/:.d:s", {}),
        ("/contexts/.c/subjects/subjects/versions", "/subjects/:.c:subjects/versions", {}),
        ("/contexts/./subjects/s", "/subjects/s", {}),
        ("/contexts/.c/compatibility/subjects/s/versions", "/compatibility/subjects/:.c:s/versions", {}),
        ("/contexts/.c/config", "/config/:.c:", {}),
        ("/contexts/./config", "/config", {}),
        ("/contexts/.c/mode/s", "/mode/:.c:s", {}),
        ("/contexts/.c/subjects", "/subjects", {"subjectPrefix": ":.c:"}),
        ("/contexts/.c/schemas?subjectPrefix=s", "/schemas", {"subjectPrefix": ":.c:s"}),
        ("/contexts/.c/schemas/ids/7", "/schemas/ids/7", {"subject": ":.c:"}),
        ("/contexts/.c/schemas/ids/7?subject=:.d:s", "/schemas/ids/7", {"subject": ":.d:s"}),
        ("/contexts/.c/schemas/types", "/schemas/types", {}),
    ],
)
def test_a_context_in_the_path_is_one_in_the_subjects(target: str, path: str, query: dict[str, str]) -> None:
    assert _rewritten(target) == (path, query)


def test_a_context_with_a_colon_is_refused() -> None:
    with pytest.raises(RequestRefused, match="Context name 'a:b' cannot contain a colon") as refused:
        contexts.rewritten(["contexts", "a:b", "subjects"], ())
    assert refused.value.status == 400


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        (None, "application/vnd.schemaregistry.v1+json"),
        ("*/*", "application/vnd.schemaregistry.v1+json"),
        ("application/*;q=0.2", "application/vnd.schemaregistry.v1+json"),
        ("application/json", "application/json"),
        ("application/json, */*;q=0.1", "application/json"),
        ("application/vnd.schemaregistry+json; q=0.9, application/json; q=0.8", None),
        ("text/html", "refused"),
        ("application/json;q=0", "refused"),
    ],
)
def test_the_type_of_an_answer_is_what_both_like_best(accept: str | None, kind: str | None) -> None:
    expected = {None: "application/vnd.schemaregistry+json", "refused": None}.get(kind, kind)
    assert media.answer_type(accept) == expected


def test_a_body_of_another_type_is_not_read() -> None:
    assert media.is_readable(None)
    assert media.is_readable("application/json; charset=utf-8")
    assert media.is_readable("application/octet-stream")
    assert not media.is_readable("text/plain")


def test_every_resource_is_found_by_its_own_path() -> None:
    for resource in RESOURCES:
        segments = [part for part in resource.path.split("/") if part]
        found, parameters = find(RESOURCES, resource.method, segments)
        assert found is resource
        assert parameters == {part[1:-1]: part for part in segments if part.startswith("{")}


def test_what_is_no_resource_is_told_from_what_has_other_methods() -> None:
    for method, path, status in [("GET", "nothing", 404), ("PUT", "subjects", 405), ("POST", "config", 405)]:
        with pytest.raises(RequestRefused) as refused:
            find(RESOURCES, method, path.split("/"))
        assert refused.value.status == status
    assert methods(RESOURCES, ["mode", "s"]) == ["DELETE", "GET", "HEAD", "PUT"]


def test_a_parameter_that_is_no_number_names_no_resource() -> None:
    with pytest.raises(RequestRefused) as refused:
        Asked(query=(("offset", "many"),)).page()
    assert refused.value.status == 404
    assert Asked(query=(("offset", "-3"), ("limit", "2"))).page() == {"offset": 0, "limit": 2}
    assert whole_number("-2147483648") == -(2**31)
    for text in ("2147483648", "-2147483649", "9" * 10_000, "٣", "+", "1_0", " 1", ""):
        with pytest.raises(RequestRefused) as refused:
            whole_number(text)
        assert refused.value.status == 404


def _members(*urls: tuple[str, bool, bool]) -> dict[str, Identity]:
    return {
        f"member-{host}": Identity(host, 8081, is_eligible, "http", is_leader)
        for host, is_eligible, is_leader in urls
    }


def test_the_leader_is_the_one_that_leads_or_the_smallest_that_may() -> None:
    assert choose(_members(("b", True, False), ("a", True, False))) == "member-a"
    assert choose(_members(("b", True, False), ("a", False, False))) == "member-b"
    assert choose(_members(("b", True, True), ("a", True, False))) == "member-b"
    assert choose(_members(("b", True, True), ("a", True, True))) == "member-a"
    assert choose(_members(("b", False, True), ("a", True, False))) == "member-a"
    assert choose(_members(("a", False, False))) is None


def test_members_and_assignments_are_told_as_confluents_are() -> None:
    one = {
        "version": 1,
        "host": "a",
        "port": 8081,
        "master_eligibility": True,
        "scheme": "http",
        "leader": False,
    }
    assert Identity.from_json(one).as_json() == one
    # Fields that an older instance leaves out.
    assert Identity.from_json({"host": "a", "port": 8081, "master_eligibility": True}).url == "http://a:8081"
    members = _members(("a", True, False), ("b", True, False))
    assert json.loads(assignment(members)) == {
        "version": 1,
        "error": 0,
        "master": "member-a",
        "master_identity": one,
    }
    told = {"x": b"no JSON", "y": json.dumps(one).encode(), "z": b"[]"}
    config = ClientConfig.from_properties({"bootstrap.servers": "127.0.0.1:1"})
    election = Election(config, "g", Identity("b", 8081), 6_000)
    assigned = election.assign(Joined("x", 3, "v0"), told)
    assert set(assigned) == set(told)
    assert json.loads(assigned["x"])["master"] == "y"
    election.assigned(Joined("x", 3, "v0"), assigned["x"])
    assert (election.leadership.leader, election.leadership.is_own) == (Identity("a", 8081), False)
    assert not election.leads(3)
    election.assigned(Joined("y", 4, "v0"), assigned["y"])
    assert election.leadership.is_own
    assert not election.leads(4)  # no heartbeat has arrived yet
    for nonsense in (b"", b"[]", b'{"master_identity": {}}'):
        election.assigned(Joined("y", 5, "v0"), nonsense)
        assert election.leadership == NOBODY
    twins = {"x": Identity("a", 8081), "y": Identity("a", 8081)}
    assert json.loads(assignment(twins))["error"] == 1
    assert "master" not in json.loads(assignment(_members(("a", False, False))))
