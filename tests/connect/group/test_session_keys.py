"""Session keys: when the leader replaces them, and how a worker answers what is not signed as it must be."""

import pytest

from penstock.connect.errors import ConnectError
from penstock.connect.group.session_keys import (
    ALGORITHM_HEADER,
    KeyRotation,
    RequestNotAuthentic,
    SessionKey,
    check,
    sign,
)

ROTATION = KeyRotation(ttl_ms=1_000)
BODY = b'[{"task":"0"}]'


def test_a_key_is_replaced_when_it_is_old_or_of_another_kind() -> None:
    key = ROTATION.generate(5_000)
    assert (key.algorithm, len(key.key), key.created_ms) == ("HmacSHA256", 32, 5_000)
    assert ROTATION.due_ms(key) == 6_000
    assert not ROTATION.is_due(key, 5_999)
    assert ROTATION.is_due(key, 6_000)
    assert ROTATION.is_due(None, 0)
    assert KeyRotation(size_bits=128, ttl_ms=1_000).is_due(key, 5_000)
    assert KeyRotation(algorithm="HmacSHA512", size_bits=256, ttl_ms=1_000).is_due(key, 5_000)
    assert len(KeyRotation(size_bits=129).generate(0).key) == 17
    assert key.key != ROTATION.generate(5_000).key
    assert repr(key.key) not in repr(key)


@pytest.mark.parametrize(
    ("headers", "key_exists", "permitted", "status"),
    [
        ({}, True, "HmacSHA256", 400),
        ({ALGORITHM_HEADER: "none"}, True, "none", 400),
        (None, True, "HmacSHA1", 400),
        (None, False, "HmacSHA256", 503),
        ({ALGORITHM_HEADER: "HmacSHA1"}, True, "HmacSHA1", 403),
    ],
)
def test_a_request_is_refused_as_by_kafka(
    headers: dict[str, str] | None, key_exists: bool, permitted: str, status: int
) -> None:
    key = ROTATION.generate(0)
    signed = sign(key, BODY, "HmacSHA256")
    check(signed, BODY, key, ["HmacSHA256"])
    received = {} if headers == {} else {**signed, **(headers or {})}
    with pytest.raises(RequestNotAuthentic) as refused:
        check(received, BODY, key if key_exists else None, [permitted])
    assert refused.value.status == status


def test_unknown_algorithms_are_refused() -> None:
    with pytest.raises(ConnectError, match="signature algorithm is 'rot13', expected one of HmacMD5"):
        sign(ROTATION.generate(0), BODY, "rot13")
    with pytest.raises(ConnectError, match=r"inter\.worker\.key\.generation\.algorithm is 'rot13'"):
        SessionKey.generate("rot13", None, 0)
