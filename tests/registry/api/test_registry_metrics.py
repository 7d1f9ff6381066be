"""`/metrics` of a registry."""

import uuid

from prometheus_client.parser import text_string_to_metric_families

from penstock.testing import Cluster
from registry_node import ask, avro, started

VERSIONS = "/subjects/{subject}/versions"


def samples(url: str) -> dict[str, float]:
    """The samples of a scrape, by name and labels."""
    answer = ask(url, "GET", "/metrics")
    assert answer.status == 200
    assert (answer.type or "").startswith("text/plain")
    return {
        " ".join([sample.name, *sample.labels.values()]): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def test_requests_schemas_and_checks_are_counted(penstock_cluster: Cluster) -> None:
    server = started(penstock_cluster.bootstrap_servers, uuid.uuid4().hex[:8])
    try:
        url = server.url
        for body in (avro("R", "a"), avro("R", "a", "b?")):
            assert ask(url, "POST", "/subjects/s/versions", body).status == 200
        assert ask(url, "POST", "/subjects/s/versions", avro("R", "c")).status == 409
        text = {"schema": 'syntax = "proto3"; message M { int32 a = 1; }', "schemaType": "PROTOBUF"}
        assert ask(url, "POST", "/subjects/p/versions", text).status == 200
        assert ask(url, "POST", f"/compatibility{VERSIONS.format(subject='s')}", avro("R", "a")).status == 200
        check = "/compatibility/subjects/s/versions/latest"
        assert ask(url, "POST", check, avro("R", "c")).status == 200
        assert ask(url, "DELETE", "/subjects/s/versions/1").status == 200
        assert ask(url, "GET", "/nowhere").status == 404
        found = samples(url)
    finally:
        server.close()
    assert found["penstock_registry_leader"] == 1
    assert found["penstock_registry_subjects"] == 2
    assert found["penstock_registry_versions AVRO active"] == 1
    assert found["penstock_registry_versions AVRO deleted"] == 1
    assert found["penstock_registry_versions PROTOBUF active"] == 1
    assert found["penstock_registry_compatibility_checks_total compatible"] == 1
    assert found["penstock_registry_compatibility_checks_total incompatible"] == 1
    assert found[f"penstock_http_requests_total 200 {VERSIONS} POST"] == 3
    assert found[f"penstock_http_requests_total 409 {VERSIONS} POST"] == 1
    assert found["penstock_http_requests_total 404 other GET"] == 1
    assert found["penstock_http_requests_open"] >= 1, "the scrape itself"
    assert any(name.startswith("penstock_build_info") for name in found)
