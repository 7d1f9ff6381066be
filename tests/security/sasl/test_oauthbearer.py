"""SASL OAUTHBEARER on both sides, without a socket."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from kafka_tokens import kafkas_answers
from long_run import repetitions
from penstock.security.sasl.clients import BearerLogin, SaslRejected, parse_extensions
from penstock.security.sasl.clients import converse as log_in
from penstock.security.sasl.oauthbearer import converse, parse_message
from penstock.security.sasl.server import Authenticated, InvalidCredentials, Rejected
from penstock.security.tokens.compact import InvalidToken
from penstock.security.tokens.unsecured import InsufficientScope
from penstock.security.tokens.validation import BearerToken

MESSAGES = repetitions("PENSTOCK_MESSAGES", gate=1_000, long=50_000)
ANN = BearerToken(principal="ann", scopes=frozenset(), expires_at_ms=1_000, usable_until_ms=2_000)


def accept(token: str) -> BearerToken:
    assert token == "a-b_c~d+e/f.g=="
    return ANN


def refuse(_token: str) -> BearerToken:
    raise InvalidToken("the reason for the log")


def outcome(message: bytes, validate: Callable[[str], BearerToken] = accept) -> Authenticated:
    """Send a message that must end the exchange."""
    conversation = converse(validate)
    next(conversation)
    with pytest.raises(StopIteration) as done:
        conversation.send(message)
    found: Authenticated = done.value.value
    return found


@pytest.mark.parametrize(
    "message",
    [
        b"n,,\1auth=Bearer a-b_c~d+e/f.g==\1\1",
        b"n,a=ann,\1auth=bEARER  a-b_c~d+e/f.g==\1\1",
        b"n,,\1host=kafka.example\1port=9092\1auth=Bearer a-b_c~d+e/f.g==\1traceId=1 2\1\1",
        b"n,,\1auth=Basic x\1auth=Bearer a-b_c~d+e/f.g==\1\1",
    ],
)
def test_a_client_with_a_token(message: bytes) -> None:
    assert outcome(message) == Authenticated("ann", b"", 2_000)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"\1",
        b"n,,\1\1",
        b"n,,\1auth=Bearer\1\1",
        b"n,,\1auth=Basic a-b_c~d+e/f.g==\1\1",
        b"n,,\1auth=Bearer a-b_c~d+e/f.g==\1",
        b"n,,\1auth=Bearer a=b\1\1",
        b"n,,\1auth=Bearer a b\1\1",
        b"y,,\1auth=Bearer a-b_c~d+e/f.g==\1\1",
        b"p=tls-unique,,\1auth=Bearer a-b_c~d+e/f.g==\1\1",
        b"n,ann,\1auth=Bearer a-b_c~d+e/f.g==\1\1",
        b"n,a=,\1auth=Bearer a-b_c~d+e/f.g==\1\1",
        b"n,a=a=b,\1auth=Bearer a-b_c~d+e/f.g==\1\1",
        b"n,,\1auth=Bearer a-b_c~d+e/f.g==\1x1=y\1\1",
        b"n,,\1auth=Bearer a-b_c~d+e/f.g==\1x=\1\1",
        b"n,,\1auth=Bearer a-b_c~d+e/f.g==\1x=\xff\1\1",
        b"\xff\xff",
        b"n,,\1auth=Bearer a-b_c~d+e/f.g==\1\1n",
    ],
)
def test_a_message_that_is_malformed(message: bytes) -> None:
    conversation = converse(accept)
    next(conversation)
    with pytest.raises(InvalidCredentials):
        conversation.send(message)


@pytest.mark.parametrize("name", ["bob", "User:ann", "Ann", "ann ", "ann=2C"])
def test_nobody_is_authorized_as_another(name: str) -> None:
    conversation = converse(accept)
    next(conversation)
    with pytest.raises(Rejected, match=r"authorization id .* different from the token's principal name"):
        conversation.send(f"n,a={name},\1auth=Bearer a-b_c~d+e/f.g==\1\1".encode())


def test_a_refused_token_ends_the_exchange_after_one_more_message() -> None:
    for answer in (b"\1", b"n,,\1auth=Bearer a-b_c~d+e/f.g==\1\1"):
        asked: list[str] = []

        def refuse_once(token: str, asked: list[str] = asked) -> BearerToken:
            asked.append(token)
            return refuse(token) if len(asked) == 1 else ANN

        conversation = converse(refuse_once)
        next(conversation)
        error = conversation.send(b"n,,\1auth=Bearer x\1\1")
        assert error == b'{"status":"invalid_token"}'
        with pytest.raises(Rejected) as refused:
            conversation.send(answer)
        assert (str(refused.value), refused.value.reason) == (error.decode(), "the reason for the log")
        assert asked == ["x"], "a second token is not looked at"


def test_a_scope_that_lacks_is_named() -> None:
    def lacks(_token: str) -> BearerToken:
        raise InsufficientScope(("a", 'b"'), "it lacks b")

    conversation = converse(lacks)
    next(conversation)
    answer = conversation.send(b"n,,\1auth=Bearer x\1\1")
    assert answer == rb'{"status":"insufficient_scope", "scope":"[a, b\"]"}'


def test_long_messages_take_linear_time() -> None:
    """They would take minutes otherwise, and the test its time limit."""
    for message in (
        b"n,a=" + b"a" * 500_000,
        b"n,,\1" + b"a=b\1" * 100_000,
        b"n,a=" + b"\1" * 500_000 + b",\1",
        b"n,,\1auth=Bearer " + b"=" * 500_000 + b"\1\1",
        b"n,,\1auth=" + b" " * 500_000 + b"\1\1",
    ):
        conversation = converse(accept)
        next(conversation)
        with pytest.raises(InvalidCredentials):
            conversation.send(message)


def test_both_sides_understand_each_other() -> None:
    login = BearerLogin("a-b_c~d+e/f.g==", (("traceId", "1 2"),))
    client = log_in("OAUTHBEARER", login)
    assert outcome(next(client)) == Authenticated("ann", b"", 2_000)
    with pytest.raises(StopIteration):
        client.send(b"")
    assert "a-b_c" not in repr(login)


def test_a_client_acknowledges_a_refusal() -> None:
    client, server = log_in("OAUTHBEARER", BearerLogin("x")), converse(refuse)
    next(server)
    assert client.send(server.send(next(client))) == b"\1"
    with pytest.raises(Rejected):
        server.send(b"\1")
    with pytest.raises(SaslRejected, match="invalid_token"):
        client.send(b"")


def test_extensions_of_a_login_module() -> None:
    options = {"extension_traceId": "1 2", "extension_": "", "clientId": "x"}
    with pytest.raises(ValueError, match="letters"):
        parse_extensions(options)
    del options["extension_"]
    assert parse_extensions(options) == (("traceId", "1 2"),)
    for name, value in (("auth", "x"), ("a1", "x"), ("a", "\1"), ("a", "")):
        with pytest.raises(ValueError, match=r"letters|printable"):
            parse_extensions({f"extension_{name}": value})


@pytest.mark.kafka
@pytest.mark.longer
@pytest.mark.timeout(600)
def test_both_read_the_same_messages(kafka_libs: Path, tmp_path: Path, rng: random.Random) -> None:
    messages = [random_message(rng) for _ in range(MESSAGES)]
    commands = [f"message\t{message.hex()}" for message in messages]
    outcomes = set()
    for message, answer in zip(messages, kafkas_answers(kafka_libs, tmp_path, commands), strict=True):
        try:
            found = parse_message(message)
            ours = ["accepted", found.authorized.encode().hex(), found.token]
        except InvalidCredentials as refusal:
            ours = ["refused"]
            outcomes.add(str(refusal))
        outcomes.add(ours[0])
        assert answer == ours, message
    assert len(outcomes) == 4, "both reasons to refuse one, and others are accepted"


def random_message(rng: random.Random) -> bytes:
    names = ("", "", "a=ann", "a=", "a=a=2Cb", "a=a=3D", "a=a=b", "a=ä", "a=a b", "a=\1", "b=c")
    tokens = rng.choices(("abc", "a.b-c_d~e+f/g==", "a b", "", "=", "a=b"), k=rng.choice((0, 1, 1, 1, 2)))
    schemes, spaces = ("Bearer", "bearer", "Basic", "Ä", ""), (" ", "  ", "", " ")
    pairs = [("auth", f"{rng.choice(schemes)}{rng.choice(spaces)}{token}") for token in tokens]
    others = (("host", "x"), ("a", "b=c"), ("a", "b c\t"), ("a1", "x"), ("a", "ä"), ("a", ""))
    pairs += rng.choices(others, k=rng.choice((0, 0, 1, 2)))
    rng.shuffle(pairs)
    joined = "".join(f"{key}={value}\1" for key, value in pairs)
    message = f"{rng.choice('nnnnnnny')},{rng.choice(names)},\1{joined}\1"
    if rng.random() < 0.1:
        where = rng.randrange(len(message))
        message = message[:where] + rng.choice("\1,=n\n") + message[where + rng.choice((0, 1)) :]
    return message.encode()
