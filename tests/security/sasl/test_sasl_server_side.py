"""SASL's mechanisms on both sides: the client's of this package, and scripted ones that cheat."""

import base64
import hashlib
import hmac
import random
from collections.abc import Callable

import pytest

from penstock.security.sasl import clients as client
from penstock.security.sasl import plain, scram
from penstock.security.sasl.server import Authenticated, Conversation, InvalidCredentials, Rejected
from penstock.security.scram import ScramCredential, ScramMechanism, credential, salted_password

PASSWORD = "pencil, =with= ümlaut"


def secret() -> bytes:
    return b"of this cluster"


def exchange(server: Conversation, mechanism: str, login: client.Login) -> Authenticated:
    """Let a client of this package log in; both sides must end."""
    talking = client.converse(mechanism, login)
    message = next(talking)
    next(server)
    while True:
        try:
            answer = server.send(message)
        except StopIteration as done:
            outcome: Authenticated = done.value
            with pytest.raises(StopIteration):
                talking.send(outcome.answer)
            return outcome
        message = talking.send(answer)


def say(server: Conversation, message: bytes) -> bytes:
    next(server)
    return server.send(message)


def users(mechanism: ScramMechanism, *names: str) -> Callable[[str], ScramCredential | None]:
    salt = b"salt of 24 bytes for all"
    salted = salted_password(mechanism, PASSWORD, salt, 4096)
    made = credential(mechanism, salt, salted, 4096)
    return lambda name: made if name in names else None


@pytest.mark.parametrize("mechanism", ScramMechanism)
@pytest.mark.parametrize("name", ["ann", "with,comma", "a=b", "zoë", "=2C"])
def test_scram_lets_in_who_knows_the_password(mechanism: ScramMechanism, name: str) -> None:
    server = scram.converse(mechanism, users(mechanism, name), secret)
    assert exchange(server, mechanism.title, client.Login(name, PASSWORD)).name == name


@pytest.mark.parametrize("mechanism", ScramMechanism)
@pytest.mark.parametrize(("name", "password"), [("ann", "wrong"), ("bob", PASSWORD), ("ann", "")])
def test_scram_refuses_all_others_in_the_same_way(
    mechanism: ScramMechanism, name: str, password: str
) -> None:
    server = scram.converse(mechanism, users(mechanism, "ann"), secret)
    with pytest.raises(InvalidCredentials):
        exchange(server, mechanism.title, client.Login(name, password))


def test_a_name_that_nobody_has_always_gets_the_same_salt() -> None:
    mechanism = ScramMechanism.SCRAM_SHA_256

    def salt(name: str) -> str:
        answer = say(scram.converse(mechanism, users(mechanism, "ann"), secret), f"n,,n={name},r=x".encode())
        return answer.decode().split(",s=")[1]

    assert salt("bob") == salt("bob")
    assert len({salt("ann"), salt("bob"), salt("carl")}) == 3
    assert len(salt("bob")) == len(salt("ann"))


@pytest.mark.parametrize(
    "message",
    [
        *(b"", b"n,,", b"y,,n=ann,r=x", b"p=tls-unique,,n=ann,r=x", b"n,,n=,r=x", b"n,,n=ann,r="),
        *(b"n,,n=an=n,r=x", b"n,,n=ann,r=a b", b"n,,n=a\0b,r=x", b"\xff\xfe", b"n,,n=ann,r=x,tokenauth"),
    ],
)
def test_scram_refuses_malformed_first_messages(message: bytes) -> None:
    mechanism = ScramMechanism.SCRAM_SHA_256
    with pytest.raises(InvalidCredentials, match=r"malformed|UTF-8"):
        say(scram.converse(mechanism, users(mechanism, "ann"), secret), message)


def test_scram_refuses_to_be_another_user() -> None:
    mechanism = ScramMechanism.SCRAM_SHA_256
    server = scram.converse(mechanism, users(mechanism, "ann", "admin"), secret)
    with pytest.raises(Rejected, match="authorization id that is different"):
        say(server, b"n,a=admin,n=ann,r=x")


def final_message(server_first: str, bare: str, *, binding: bytes = b"n,,", nonce: str | None = None) -> str:
    """A correct final message of ann's, unless the arguments say otherwise."""
    mechanism = ScramMechanism.SCRAM_SHA_256
    fields = dict(part.split("=", 1) for part in server_first.split(","))
    salted = salted_password(mechanism, PASSWORD, base64.b64decode(fields["s"]), int(fields["i"]))
    key = hmac.digest(salted, b"Client Key", "sha256")
    without_proof = f"c={base64.b64encode(binding).decode()},r={nonce or fields['r']}"
    signed = f"{bare},{server_first},{without_proof}".encode()
    signature = hmac.digest(hashlib.sha256(key).digest(), signed, "sha256")
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True))).decode()
    return f"{without_proof},p={proof}"


def last_word(change: Callable[[str, str], str]) -> Authenticated | InvalidCredentials:
    mechanism, bare = ScramMechanism.SCRAM_SHA_256, "n=ann,r=mine"
    server = scram.converse(mechanism, users(mechanism, "ann"), secret)
    server_first = say(server, f"n,,{bare}".encode()).decode()
    try:
        server.send(change(server_first, bare).encode())
    except StopIteration as done:
        outcome: Authenticated = done.value
        return outcome
    except InvalidCredentials as refused:
        return refused
    raise AssertionError("the server waits for more")


def test_scram_checks_nonce_binding_and_the_length_of_the_proof() -> None:
    honest = last_word(final_message)
    assert isinstance(honest, Authenticated)
    cheats: dict[str, Callable[[str, str], str]] = {
        "another nonce": lambda first, bare: final_message(first, bare, nonce="mine"),
        "a longer nonce": lambda first, bare: final_message(first, bare, nonce=first.split(",")[0][2:] + "x"),
        "another binding": lambda first, bare: final_message(first, bare, binding=b"y,,"),
        "no proof": lambda first, bare: final_message(first, bare).split(",p=")[0] + ",p=",
        "a short proof": lambda first, bare: final_message(first, bare).split(",p=")[0] + ",p=AAAA",
        "a long proof": lambda first, bare: final_message(first, bare).split(",p=")[0] + ",p=" + "A" * 64,
        "invalid base64": lambda first, bare: final_message(first, bare).split(",p=")[0] + ",p=A",
    }
    for name, cheat in cheats.items():
        assert isinstance(last_word(cheat), InvalidCredentials), name


def test_scram_survives_random_messages() -> None:
    rng = random.Random(seed := random.randrange(2**32))
    print("seed", seed)
    mechanism = ScramMechanism.SCRAM_SHA_256
    for _ in range(2000):
        message = bytearray(b"n,,n=ann,r=nonce,a=b")
        for _ in range(rng.randrange(1, 4)):
            message[rng.randrange(len(message))] = rng.randrange(256)
        server = scram.converse(mechanism, users(mechanism, "ann"), secret)
        try:
            say(server, bytes(message))
            server.send(rng.randbytes(rng.randrange(100)))
        except (InvalidCredentials, Rejected):
            continue


def plain_outcome(message: bytes) -> str:
    server = plain.converse({"ann": "ann-secret", "empty": ""})
    try:
        say(server, message)
    except StopIteration as done:
        return f"welcome {done.value.name}"
    except Rejected as refused:
        return str(refused)
    raise AssertionError("the server waits for more")


def test_plain_says_what_kafka_says() -> None:
    assert plain_outcome(b"\0ann\0ann-secret") == "welcome ann"
    assert plain_outcome(b"ann\0ann\0ann-secret") == "welcome ann"
    for message, words in (
        (b"\0ann\0wrong", "Authentication failed: Invalid username or password"),
        (b"\0bob\0ann-secret", "Authentication failed: Invalid username or password"),
        (b"\0empty\0x", "Authentication failed: Invalid username or password"),
        (b"\0ann\0", "Authentication failed: password not specified"),
        (b"\0\0x", "Authentication failed: username not specified"),
        (b"", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        (b"ann\0ann-secret", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        (b"\0ann\0ann-secret\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
        (
            b"admin\0ann\0ann-secret",
            "Authentication failed: Client requested an authorization id that is different from username",
        ),
    ):
        assert plain_outcome(message) == words
