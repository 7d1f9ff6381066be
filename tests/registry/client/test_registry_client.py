"""The client against a small registry over real HTTP: its requests, cache, retries and errors."""

import json
import pickle
import traceback

import pytest

from penstock.client.settings import ConfigError
from penstock.registry.client.config import RegistryConfig
from penstock.registry.client.errors import RegistryRefused, RegistryUnreachable
from penstock.registry.client.http import Transport
from penstock.registry.client.recent import KEPT_MAX, Recent
from penstock.registry.client.registry import ABSENT_S, RegistryClient
from penstock.registry.formats import Reference
from small_registry import SmallRegistry

RECORD = json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}]})


@pytest.fixture
def registry():
    with SmallRegistry().running() as running:
        yield running


def client_of(*urls, slept=None, clock=None, **properties):
    given = {"schema.registry.url": ",".join(urls)}
    given |= {name.replace("_", "."): value for name, value in properties.items()}
    config = RegistryConfig.from_properties(given)
    transport = Transport(config, ([] if slept is None else slept).append)
    return RegistryClient(config, transport, clock or (lambda: 0.0))


def test_a_schema_is_asked_for_once(registry):
    number = registry.add("s", RECORD)
    client = client_of(registry.url)
    assert client.by_id(number).text == RECORD
    assert client.by_id(number).format == "AVRO"
    assert registry.requests == [f"GET /schemas/ids/{number}"]


def test_the_latest_is_asked_for_each_time_and_a_version_once(registry):
    client = client_of(registry.url)
    first = client.register("a/b", "AVRO", '"string"')
    assert (client.latest("a/b").id, client.latest("a/b").version) == (first, 1)
    second = client.register("a/b", "AVRO", RECORD)
    assert client.latest("a/b").id == second
    assert client.versions("a/b") == [1, 2]
    assert client.version("a/b", 1).id == client.version("a/b", 1).id == first
    assert registry.requests.count("GET /subjects/a%2Fb/versions/1") == 1
    assert registry.requests.count("GET /subjects/a%2Fb/versions/latest") == 3


def test_a_schema_is_registered_once_and_found_again(registry):
    client = client_of(registry.url)
    number = client.register("s", "JSON", "{}")
    assert client.register("s", "JSON", "{}") == number
    assert client.registered_id("s", "JSON", "{}") == number
    assert registry.requests == ["POST /subjects/s/versions", "POST /subjects/s"]
    with pytest.raises(RegistryRefused, match="Schema not found"):
        client.registered_id("s", "JSON", '{"a": 1}')


def test_references_are_found_by_subject_and_version(registry):
    registry.add("part", RECORD)
    uses = {"type": "record", "name": "W", "fields": [{"name": "r", "type": "R"}]}
    number = registry.add(
        "whole", json.dumps(uses), references=[{"name": "R", "subject": "part", "version": 1}]
    )
    client = client_of(registry.url)
    found = client.by_id(number)
    assert found.references == (Reference("R", "part", 1),)
    assert client.parsed(found) is client.parsed(found)
    assert '"name":"R"' in client.parsed(found).formatted("resolved")


def test_an_id_that_is_not_there_is_told_and_asked_again_later(registry):
    now = [100.0]
    client = client_of(registry.url, clock=lambda: now[0])
    for _ in range(2):
        with pytest.raises(RegistryRefused, match=r"GET \S+/schemas/ids/7 answered 404 .*40403.*not found"):
            client.by_id(7)
    assert len(registry.requests) == 1
    registry.schemas[7] = {"schema": RECORD}
    now[0] += ABSENT_S
    assert client.by_id(7).text == RECORD


def test_what_is_told_again_and_again_is_not_kept_again_and_again(registry):
    """A cached error keeps neither the stack of each caller nor every id that records contain."""
    client = client_of(registry.url)
    depths = []
    for _ in range(3):
        with pytest.raises(RegistryRefused) as told:
            client.by_id(7)
        depths.append(len(list(traceback.walk_tb(told.value.__traceback__))))
    assert depths[2] == depths[1]
    now = [0.0]
    recent = Recent(10, lambda: now[0], kept_max=3)
    for number in range(5):
        recent.put(number, str(number))
    assert [recent.get(number) for number in range(5)] == [None, None, "2", "3", "4"]
    now[0] = 9.0
    recent.put(2, "again")
    now[0] = 10.0
    assert [recent.get(number) for number in (2, 3, 4)] == ["again", None, None]
    assert len(recent) == 1


def test_what_is_not_there_is_remembered_of_so_many_ids():
    class Empty:
        asked = 0

        def get(self, path):
            self.asked += 1
            raise RegistryRefused(path, 404, 40403, "Schema not found")

    transport = Empty()
    config = RegistryConfig.from_properties({"schema.registry.url": "http://h"})
    client = RegistryClient(config, transport, lambda: 0.0)
    for schema_id in [*range(KEPT_MAX + 1), KEPT_MAX, 1, 0]:
        with pytest.raises(RegistryRefused) as told:
            client.by_id(schema_id)
        assert told.value.code == 40403
    assert transport.asked == KEPT_MAX + 2  # the first one was evicted


def test_a_reference_that_is_not_there_yet_is_no_fault_of_the_schema(registry):
    now = [0.0]
    client = client_of(registry.url, clock=lambda: now[0])
    references = [{"name": "R", "subject": "part", "version": 1}]
    text = '{"type": "array", "items": "R"}'
    known = client.by_id(registry.add("s", text, references=references))
    for _ in range(2):
        with pytest.raises(RegistryRefused, match="/subjects/part/versions/1 answered 404") as told:
            client.parsed(known)
        assert told.value.is_absence
    assert registry.requests.count("GET /subjects/part/versions/1") == 1
    registry.add("part", RECORD)
    now[0] += ABSENT_S
    assert client.parsed(known).canonical() == text.replace(" ", "")


def test_a_wrong_path_says_nothing_of_what_is_there(registry):
    with pytest.raises(RegistryRefused, match=r"answered 404 \(error code 404\)") as told:
        client_of(f"{registry.url}/elsewhere").by_id(registry.add("s", RECORD))
    assert not told.value.is_absence


def test_the_next_registry_is_asked_and_kept(registry):
    number = registry.add("s", RECORD)
    with SmallRegistry().running() as gone:
        pass
    client = client_of(gone.url, registry.url)
    assert client.by_id(number).text == RECORD
    assert client.latest("s").id == number


def test_what_may_pass_is_tried_again_with_longer_waits(registry):
    number = registry.add("s", RECORD)
    registry.failures = [500, 503]
    slept = []
    client = client_of(registry.url, slept=slept, retries_wait_ms="100", max_retries="2")
    assert client.by_id(number).text == RECORD
    assert [round(wait_s, 1) for wait_s in slept] == [0.1, 0.2]


def test_what_does_not_pass_is_told(registry):
    registry.failures = [500] * 3
    with pytest.raises(RegistryRefused, match=r"answered 500 .*50001.*not now"):
        client_of(registry.url, max_retries="2").by_id(1)
    assert len(registry.requests) == 3


def test_who_is_not_reached_is_named(registry):
    with SmallRegistry().running() as gone:
        pass
    with pytest.raises(RegistryUnreachable, match=rf"in 2 attempts: {gone.url}: .*refused"):
        client_of(gone.url, max_retries="1").by_id(1)


def test_passwords_are_sent_and_not_shown():
    with SmallRegistry("user:se:cret").running() as registry:
        number = registry.add("s", RECORD)
        with_user = registry.url.replace("://", "://user:se%3Acret@")
        assert client_of(with_user).by_id(number).text == RECORD
        by_property = client_of(registry.url, basic_auth_user_info="user:se:cret")
        assert by_property.by_id(number).text == RECORD
        for config in (client_of(with_user).config, by_property.config):
            assert "cret" not in repr(config) + config.urls_text
            assert pickle.loads(pickle.dumps(config)) == config
        with pytest.raises(RegistryRefused, match="answered 401"):
            client_of(registry.url).by_id(number)


def test_tokens_are_sent_and_not_shown():
    with SmallRegistry(authorization="Bearer to.ken").running() as registry:
        number = registry.add("s", RECORD)
        client = client_of(
            registry.url, bearer_auth_credentials_source="STATIC_TOKEN", bearer_auth_token="to.ken"
        )
        assert client.by_id(number).text == RECORD
        assert "to.ken" not in repr(client.config)
        with pytest.raises(RegistryRefused, match="answered 401"):
            client_of(registry.url, bearer_auth_token="another").by_id(number)


def test_a_cloud_is_told_which_registry_is_meant():
    config = client_of(
        "http://h",
        bearer_auth_token="t",
        bearer_auth_logical_cluster="lsrc-1",
        bearer_auth_identity_pool_id="p",
    ).config
    assert config.identification == {
        "Authorization": "Bearer t",
        "target-sr-cluster": "lsrc-1",
        "Confluent-Identity-Pool-Id": "p",
    }


@pytest.mark.parametrize(
    ("properties", "told"),
    [
        ({"schema.registry.url": "localhost:8081"}, "expected http://host"),
        ({"schema.registry.url": "http://user:secret@h:x"}, r"found 'h:x'"),
        ({"schema.registry.url": ","}, "is empty"),
        ({}, "'schema.registry.url' is missing"),
        ({"schema.registry.url": "http://h", "basic.auth.user.info": "me"}, "expected user:password"),
        (
            {"schema.registry.url": "http://h", "basic.auth.credentials.source": "USER_INFO"},
            "expected 'basic.auth.user.info'",
        ),
        (
            {"schema.registry.url": "http://h", "bearer.auth.credentials.source": "STATIC_TOKEN"},
            "expected 'bearer.auth.token'",
        ),
        (
            {"schema.registry.url": "http://h", "bearer.auth.credentials.source": "OAUTHBEARER"},
            "expected one of static_token",
        ),
        ({"schema.registry.url": "http://a:secret@h", "bearer.auth.token": "secret"}, "exclude each other"),
        ({"schema.registry.url": "http://h", "schema.registry.ssl.truststore.type": "BKS"}, "PEM, PKCS12"),
    ],
)
def test_properties_that_cannot_be_are_named(properties, told):
    with pytest.raises(ConfigError, match=told) as error:
        RegistryConfig.from_properties(properties)
    assert "secret" not in str(error.value)


def test_a_server_that_is_no_registry_is_told(registry):
    registry.answer = lambda method, path, body: (200, ["what"])
    with pytest.raises(RegistryUnreachable, match="is not that of a schema registry: expected an object"):
        client_of(registry.url).by_id(1)
