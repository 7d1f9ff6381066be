"""Requests to an issuer's endpoints over HTTPS."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from certificates import Authority
from issuer import Issuer, IssuerServer
from penstock.security.oauth.errors import EndpointFailed
from penstock.security.oauth.http import Backoff, Endpoint, parse_endpoint, tls_of_options


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("oauth") / "authority")


@pytest.fixture
def server(authority: Authority) -> Iterator[IssuerServer]:
    with IssuerServer(Issuer(), authority) as server:
        server.issuer.key()
        yield server


def endpoint(server: IssuerServer, authority: Authority, path: str) -> Endpoint:
    options = {"ssl.truststore.type": "pem", "ssl.truststore.location": str(authority.certificate)}
    return Endpoint(server.url(path), tls_of_options(options))


def failure(endpoint: Endpoint, *, by_post: bool = False) -> EndpointFailed:
    with pytest.raises(EndpointFailed) as failed:
        endpoint.post("a=b", {}) if by_post else endpoint.get()
    return failed.value


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("file:///a/b%20c.json", Path("/a/b c.json")),
        ("file:/a", Path("/a")),
        ("file://localhost/a", Path("/a")),
        ("https://issuer.example/a?b=c", "https://issuer.example/a?b=c"),
        ("HTTPS://issuer.example", "https://issuer.example"),
        ("http://localhost:8080/", "http://localhost:8080/"),
        ("http://127.0.0.9/", "http://127.0.0.9/"),
        ("http://[::1]/", "http://[::1]/"),
    ],
)
def test_urls(text: str, place: Path | str) -> None:
    assert parse_endpoint(text) == place


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "file: or https:"),
        ("ftp://issuer.example/", "file: or https:"),
        ("https:///path", "file: or https:"),
        ("https://issuer.example:port/", "file: or https:"),
        ("file://elsewhere/a", "an absolute path"),
        ("file:a", "an absolute path"),
        ("http://issuer.example/", "https:"),
        ("http://localhost.evil.example/", "https:"),
        ("http://10.0.0.1/", "https:"),
        ("https://user:secret@issuer.example/", "without a user"),
    ],
)
def test_urls_that_are_refused(text: str, expected: str) -> None:
    with pytest.raises(ValueError, match=expected) as refused:
        parse_endpoint(text)
    assert "secret" not in str(refused.value)


def test_the_certificate_is_verified(server: IssuerServer, authority: Authority) -> None:
    assert b'"keys"' in endpoint(server, authority, "/jwks").get()
    assert "certificate verify failed" in str(failure(Endpoint(server.url("/jwks"))))
    with IssuerServer(server.issuer, authority, authority.elsewhere) as elsewhere:
        assert "Hostname mismatch" in str(failure(endpoint(elsewhere, authority, "/jwks")))


def test_statuses(server: IssuerServer, authority: Authority) -> None:
    for status, is_final in ((400, True), (401, True), (404, True), (408, False), (429, False), (503, False)):
        server.answers["/x"] = lambda status=status: (status, '{"error":"why"}')
        failed = failure(endpoint(server, authority, "/x"))
        assert (failed.is_final, f'answers {status}: {{"error":"why"}}' in str(failed)) == (is_final, True)


def test_redirects_are_followed_to_https_and_never_with_credentials(
    server: IssuerServer, authority: Authority
) -> None:
    server.answers["/x"] = lambda: (302, server.url("/jwks"))
    assert b'"keys"' in endpoint(server, authority, "/x").get()
    assert "answers 302" in str(failure(endpoint(server, authority, "/x"), by_post=True))
    for target in ("http://localhost:1/", "file:///etc/passwd", "ftp://localhost/"):
        server.answers["/x"] = lambda target=target: (302, target)
        assert failure(endpoint(server, authority, "/x")).is_final


def test_an_answer_has_a_limit(server: IssuerServer, authority: Authority) -> None:
    server.answers["/x"] = lambda: (200, "x" * (1 << 20))
    assert len(endpoint(server, authority, "/x").get()) == 1 << 20
    server.answers["/x"] = lambda: (200, "x" * (1 << 20) + "x")
    assert "more than" in str(failure(endpoint(server, authority, "/x")))


def test_pauses_double_until_the_time_is_over() -> None:
    now_s, pauses, failures = [0.0], [], 0

    def sleep(pause_s: float) -> None:
        pauses.append(round(pause_s, 3))
        now_s[0] += pause_s

    def fail() -> None:
        nonlocal failures
        failures += 1
        raise EndpointFailed(f"failure {failures}", is_final=failures == 99)

    with pytest.raises(EndpointFailed, match=r"failure 1$"):
        Backoff(100, 1000).attempt(fail, lambda: now_s[0], sleep)
    assert pauses == [0.1, 0.2, 0.4, 0.3]
    pauses.clear()
    failures = 98
    with pytest.raises(EndpointFailed, match="failure 99"):
        Backoff(100, 1000).attempt(fail, lambda: now_s[0], sleep)
    assert not pauses, "a final failure is not repeated"


@pytest.mark.parametrize(("first_ms", "limit_ms"), [(-1, 10), (11, 10)])
def test_a_first_pause_that_is_too_long(first_ms: int, limit_ms: int) -> None:
    with pytest.raises(ValueError, match="from 0 to the limit"):
        Backoff(first_ms, limit_ms)
