"""Where the keys of an issuer come from, and when they are fetched again."""

import threading
from collections.abc import Callable

import pytest

from issuer import Issuer
from penstock.security.oauth.errors import EndpointFailed, KeysUnavailable
from penstock.security.oauth.http import Backoff
from penstock.security.oauth.keys import MissingKeys, RemoteKeys

LONG_MS = 3_600_000
WAIT_S = 20


class Endpoint:
    """An endpoint with one answer, which counts the fetches."""

    def __init__(self, answer: Callable[[], str]) -> None:
        self.answer = answer
        self.count = 0
        self._changed = threading.Condition()

    def __call__(self) -> bytes:
        try:
            return self.answer().encode()
        finally:
            with self._changed:
                self.count += 1
                self._changed.notify_all()

    def wait_for(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self.count >= count, WAIT_S)


def keys_of(endpoint: Endpoint, refresh_ms: int = LONG_MS) -> RemoteKeys:
    keys = RemoteKeys("https://issuer.example", endpoint, refresh_ms, Backoff(0, 0))
    keys.start()
    return keys


def test_a_missing_key_is_asked_for_once_a_minute() -> None:
    now_s = [1000.0]
    missing = MissingKeys(lambda: now_s[0])
    assert missing.is_reason("a")
    assert not missing.is_reason("a")
    now_s[0] += 59
    assert not missing.is_reason("a")
    now_s[0] += 1
    assert missing.is_reason("a")


def test_invented_keys_are_a_reason_once_in_ten_seconds() -> None:
    now_s, reasons = [1000.0], 0
    missing = MissingKeys(lambda: now_s[0])
    for number in range(10_000):  # 100 tokens a second
        reasons += missing.is_reason(f"invented {number}")
        now_s[0] += 0.01
    assert reasons == 10


def test_keys_that_the_pace_held_back_may_be_asked_for_later() -> None:
    now_s = [1000.0]
    missing = MissingKeys(lambda: now_s[0])
    assert missing.is_reason("invented")
    assert not missing.is_reason("new")
    now_s[0] += 10
    assert missing.is_reason("new"), "it was not asked for before"


def test_few_missing_keys_are_remembered() -> None:
    now_s = [1000.0]
    missing = MissingKeys(lambda: now_s[0])
    for number in range(1_000):
        now_s[0] += 10
        missing.is_reason(f"invented {number}")
    assert len(missing._asked_at_s) == 16


def test_keys_are_fetched_again_in_time_and_for_missing_ones() -> None:
    issuer = Issuer()
    issuer.key()
    endpoint = Endpoint(issuer.jwks)
    often = keys_of(endpoint, refresh_ms=1)
    endpoint.wait_for(3)
    often.close()
    endpoint = Endpoint(issuer.jwks)
    seldom = keys_of(endpoint)
    seldom.report_missing(None)
    seldom.report_missing("new")
    endpoint.wait_for(2)
    seldom.close()


def test_keys_stay_while_the_issuer_fails() -> None:
    issuer = Issuer()
    issuer.key()
    answers = iter([issuer.jwks, lambda: "{", lambda: (_ for _ in ()).throw(EndpointFailed("503"))])
    endpoint = Endpoint(lambda: next(answers, issuer.jwks)())
    keys = keys_of(endpoint, refresh_ms=1)
    first = keys.current()
    endpoint.wait_for(4)
    assert len(keys.current()) == len(first) == 1
    keys.close()


@pytest.mark.parametrize("answer", ["{", '{"keys":[]}'])
def test_a_source_does_not_start_without_keys(answer: str) -> None:
    with pytest.raises(KeysUnavailable):
        keys_of(Endpoint(lambda: answer))


def test_closing_does_not_wait() -> None:
    issuer = Issuer()
    issuer.key()
    keys = keys_of(Endpoint(issuer.jwks))
    keys.close()
    keys._thread.join(WAIT_S)
    assert not keys._thread.is_alive()
