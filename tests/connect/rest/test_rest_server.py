"""A worker's listeners, and what its properties say about the REST API."""

import base64
import socket
import ssl
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from rest_serving import ask, serving, settings_of

from certificates import Authority
from penstock.connect.errors import ConfigInvalid
from penstock.connect.group.session_keys import sign
from penstock.connect.herding.entities import Stage
from penstock.connect.herding.errors import NotFound
from penstock.connect.herding.worker_client import WorkerClient
from penstock.connect.rest.server import RestServer
from penstock.connect.rest.settings import Listener
from waiting import wait_until

HTTP, HTTPS = "http://127.0.0.1:0", "https://127.0.0.1:0"


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("connect-tls") / "authority")


def keystore(authority: Authority, prefix: str = "") -> dict[str, str]:
    store = {"location": str(authority.server.store), "type": "PEM"}
    return {f"{prefix}ssl.keystore.{name}": text for name, text in store.items()}


def trusting(authority: Authority) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(authority.certificate))


def test_operations_that_take_too_long() -> None:
    with serving(timeout_s=0.05) as served:
        served.herder.is_stuck = True
        url = served.url
        assert ask(f"{url}/connectors/c").message == "Request timed out"
        stage = Stage("reading to the end of the config topic", 1_795_937_433_478)
        served.herder.stage = stage
        current = "reading to the end of the config topic, which began at 2026-11-29T07:30:33.478Z"
        timed_out = ask(f"{url}/connectors/c", "DELETE")
        assert timed_out.status == 500
        assert timed_out.message == f"Request timed out. The worker is currently {current}."
        unhealthy = ask(f"{url}/health")
        told = "Worker was unable to handle this request and may be unable to handle other requests."
        assert (unhealthy.status, unhealthy.body) == (
            500,
            {"status": "unhealthy", "message": f"{told} The worker is currently {current}."},
        )
        served.herder.is_ready = False
        served.herder.stage = Stage(stage.description, stage.started_ms, 1_795_937_434_000)
        starting = ask(f"{url}/health")
        completed = f"The last operation the worker completed was {current} and completed at"
        assert (starting.status, starting.body) == (
            503,
            {
                "status": "starting",
                "message": f"Worker is still starting up. {completed} 2026-11-29T07:30:34Z.",
            },
        )
        assert ask(f"{url}/connectors").body == []


def test_operations_that_wait_leave_room_for_others() -> None:
    count = 100  # more than the threads that call the herder
    with serving() as served, ThreadPoolExecutor(count) as clients:
        served.herder.is_stuck = True
        waiting = [clients.submit(ask, f"{served.url}/connectors/c") for _ in range(count)]
        wait_until(lambda: len(served.herder.stuck) == count)
        assert ask(f"{served.url}/connectors").body == []
        for future in served.herder.stuck:
            future.set_exception(NotFound("Connector c not found"))
        assert {each.result().message for each in waiting} == {"Connector c not found"}


def test_a_body_that_is_too_large() -> None:
    with serving() as served:
        refused = ask(f"{served.url}/connectors", "POST", b" " * (8 << 20) + b"{}")
        assert refused.status == 413


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, "http://127.0.0.1:{http}/"),
        ({"rest.advertised.host.name": "a.example"}, "http://a.example:{http}/"),
        ({"rest.advertised.host.name": "::1", "rest.advertised.port": "99"}, "http://[::1]:99/"),
        ({"rest.advertised.listener": "HTTPS"}, "https://127.0.0.1:{https}/"),
        ({"listeners": HTTPS}, "https://127.0.0.1:{https}/"),
        ({"listeners": f"{HTTPS},{HTTP}"}, "http://127.0.0.1:{http}/"),
        ({"listeners": "HTTP://localhost:0"}, "http://localhost:{http}/"),
    ],
)
def test_the_advertised_url(properties: Mapping[str, str], expected: str, authority: Authority) -> None:
    given = {"listeners": f"{HTTP},{HTTPS}", **keystore(authority), **properties}
    server = RestServer(settings_of(given))
    try:
        ports = {url.partition(":")[0]: url.rpartition(":")[2] for url in server.urls}
        assert server.advertised_url == expected.format(**ports)
        assert server.worker_id == server.advertised_url.partition("://")[2].rstrip("/")
    finally:
        server.close()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("http://:8083", Listener("http", "", 8083)),
        ("HTTPS://[::1]:1", Listener("https", "::1", 1)),
        ("http://a-b.example:0", Listener("http", "a-b.example", 0)),
        ("http://a", "Listener doesn't have the right format (protocol://hostname:port)."),
        ("http://a:1/", "Listener doesn't have the right format (protocol://hostname:port)."),
        ("ftp://a:1", 'Listener protocol must be either "http" or "https".'),
    ],
)
def test_listeners(text: str, expected: Listener | str) -> None:
    if isinstance(expected, Listener):
        assert Listener.parse(text) == expected
    else:
        with pytest.raises(ConfigInvalid) as refused:
            Listener.parse(text)
        assert str(refused.value) == expected


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"listeners": HTTPS}, "'listeners' has https: HTTPS needs a key"),
        ({"listeners": f"{HTTP},gopher://a:1"}, "Listener protocol must be"),
        ({"response.http.headers.config": "put a:b"}, "Invalid header config action: 'put'"),
        ({"authentication.method": "BASIC"}, "go together"),
        ({"access.control.allow.origin": "("}, "'access.control.allow.origin' has"),
    ],
)
def test_invalid_properties(properties: Mapping[str, str], expected: str) -> None:
    with pytest.raises(ConfigInvalid, match=expected.replace("(", "\\(")):
        RestServer(settings_of({"listeners": HTTP, **properties}))


def test_a_port_that_is_taken() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(OSError, match="cannot listen on"):
            RestServer(settings_of({"listeners": f"{HTTP},http://127.0.0.1:{taken.getsockname()[1]}"}))


def test_loggers_on_listeners_of_their_own() -> None:
    with serving({"admin.listeners": HTTP}) as served:
        admin = served.server.admin_urls[0]
        assert ask(f"{served.url}/admin/loggers").status == 404
        assert ask(f"{admin}/admin/loggers").body == {}
        assert ask(f"{admin}/admin/loggers/x", "PUT", {"level": "WARN"}).body == ["x"]
        assert ask(f"{admin}/connectors").status == 404
    with serving({"admin.listeners": ""}) as served:
        assert ask(f"{served.url}/admin/loggers").status == 404
        assert not served.server.admin_urls


def test_topics_that_may_not_be_reset() -> None:
    with serving({"topic.tracking.allow.reset": "false"}) as served:
        assert ask(f"{served.url}/connectors/c/topics").status == 200
        refused = ask(f"{served.url}/connectors/c/topics/reset", "PUT")
        assert (refused.status, refused.message) == (403, "Topic tracking reset is disabled.")


def test_plugins() -> None:
    with serving() as served:
        url = f"{served.url}/connector-plugins"
        connectors = [
            {"class": "a.Sink", "type": "sink", "version": "1"},
            {"class": "a.Source", "type": "source"},
        ]
        assert ask(url).body == connectors
        others = [{"class": "a.Converter", "type": "converter", "version": "2"}]
        assert ask(f"{url}?connectorsOnly=false").body == connectors + others
        valid = ask(f"{url}/Source/config/validate", "PUT", {"connector.class": "a.SourceConnector"})
        assert valid.body == {"name": "a.SourceConnector", "error_count": 0, "groups": [], "configs": []}


def test_tls_and_forwarding_over_it(authority: Authority) -> None:
    tls = trusting(authority)
    prefixed = {"listeners": HTTPS, **keystore(authority, "listeners.https.")}
    with serving(prefixed, WorkerClient(tls)) as served:
        assert ask(f"{served.url}/", tls=tls).body["version"] == "4.3.1"
        created = ask(
            f"{served.url}/connectors",
            "POST",
            {"name": "c", "config": {"connector.class": "FileStreamSource"}},
            tls=tls,
        )
        assert created.headers["location"] == f"{served.url}/connectors/c"
        assert WorkerClient(tls).ask("GET", served.server.advertised_url).status == 200


def test_clients_with_certificates(authority: Authority) -> None:
    given = {
        "listeners": HTTPS,
        **keystore(authority),
        "ssl.client.auth": "required",
        "ssl.truststore.location": str(authority.certificate),
        "ssl.truststore.type": "PEM",
    }
    tls = trusting(authority)
    tls.load_cert_chain(authority.client.chain, authority.client.key)
    with serving(given) as served:
        assert ask(f"{served.url}/", tls=tls).status == 200
        with pytest.raises((ssl.SSLError, OSError)):
            ask(f"{served.url}/", tls=trusting(authority))


@pytest.mark.parametrize("prefix", ["", "listeners.https."])
def test_workers_trust_each_other_with_the_settings_of_their_listeners(
    authority: Authority, prefix: str
) -> None:
    given = {
        "listeners": HTTPS,
        **keystore(authority, prefix),
        f"{prefix}ssl.client.auth": "required",
        f"{prefix}ssl.truststore.location": str(authority.certificate),
        f"{prefix}ssl.truststore.type": "PEM",
    }
    with serving(given) as served:
        client = WorkerClient(settings_of(given).client_tls())
        assert client.ask("GET", served.server.advertised_url).status == 200
    assert settings_of({}).client_tls() is None
    with pytest.raises(ConfigInvalid, match="TLS of requests to other workers"):
        settings_of({**given, f"{prefix}ssl.truststore.location": "/absent"}).client_tls()


def test_roles(tmp_path: Path) -> None:
    users = tmp_path / "users"
    users.write_text("admin: a, admin\nwriter: w, writer\nreader: r, reader\n")
    guarded = {
        "authentication.method": "BASIC",
        "penstock.authentication.users": str(users),
        "authentication.skip.paths": "/health",
    }

    def status(method: str, path: str, user: str | None, body: object = None) -> int:
        headers = {}
        if user is not None:
            headers["Authorization"] = "Basic " + base64.b64encode(f"{user}:{user[0]}".encode()).decode()
        return ask(f"{served.url}{path}", method, body, headers).status

    with serving(guarded) as served:
        named = {"name": "c", "config": {"connector.class": "FileStreamSource"}}
        level = {"level": "WARN"}
        assert [status("GET", "/connectors", user) for user in (None, "reader", "x")] == [401, 200, 401]
        assert [status("GET", "/metrics", user) for user in (None, "reader", "x")] == [401, 200, 401]
        assert [status("POST", "/connectors", user, named) for user in ("reader", "writer")] == [403, 201]
        plugin = "/connector-plugins/FileStreamSource/config/validate"
        assert [status("PUT", plugin, user, named["config"]) for user in ("reader", "writer")] == [403, 200]
        assert [status("PUT", "/admin/loggers/x", user, level) for user in ("writer", "admin")] == [403, 200]
        assert status("GET", "/health", None) == 200
        assert status("GET", "/connectors/c/tasks", None) == 401
        assert status("POST", "/connectors/c/tasks", None, []) == 400  # unsigned, and no user is expected
        signed = sign(served.herder.key, b"[]", "HmacSHA256")
        tasks = f"{served.url}/connectors/c/tasks"
        assert WorkerClient().ask("POST", tasks, b"[]", signed).status == 204
        served.herder.signs_requests = False  # the herder would not check the signature
        assert WorkerClient().ask("POST", tasks, b"[]", signed).status == 401
        assert [status("POST", "/connectors/c/tasks", user, []) for user in ("reader", "x")] == [403, 401]
        assert status("POST", "/connectors/c/tasks", "writer", []) != 401
