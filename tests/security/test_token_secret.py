"""The secret of delegation tokens: HMACs, searches and credentials."""

import base64
import hmac

import pytest

from penstock.security.delegation_tokens import TokenSecret, password_of
from penstock.security.sasl import scram
from penstock.security.sasl.server import Authenticated, InvalidCredentials
from penstock.security.scram import (
    ScramCredential,
    ScramMechanism,
    client_key,
    credential,
    salted_password,
    stored_key,
)

SHA_256, SHA_512 = ScramMechanism
SECRET = TokenSecret("secret")
EXPIRES_MS = 1_700_000_000_000


def test_all_nodes_compute_the_same_credentials() -> None:
    other_node, other_cluster = TokenSecret("secret"), TokenSecret("Secret")
    found = {SECRET.credential(mechanism, token) for mechanism in ScramMechanism for token in ("x", "y")}
    assert len(found) == len({each.salt for each in found}) == 4
    assert SECRET.credential(SHA_256, "x") == other_node.credential(SHA_256, "x")
    assert SECRET.credential(SHA_256, "x") != other_cluster.credential(SHA_256, "x")


def test_tokens_are_found_by_their_hmacs_while_they_exist() -> None:
    secret = TokenSecret("secret")
    tokens = {str(number): None for number in range(100)}
    for token_id in tokens:
        assert secret.find(SECRET.hmac(token_id), tokens) == token_id
    del tokens["7"]
    assert secret.find(SECRET.hmac("7"), tokens) is None
    assert secret.find(b"", tokens) is None
    tokens.clear()
    assert secret.find(SECRET.hmac("8"), tokens) is None
    tokens["7"] = None
    assert secret.find(SECRET.hmac("7"), tokens) == "7"


def of_ann(name: str) -> ScramCredential | None:
    """The credential of the user ann, whose password is her name."""
    salted = salted_password(SHA_256, "ann", b"salt", 4096)
    return credential(SHA_256, b"salt", salted, 4096) if name == "ann" else None


def of_token(token_id: str) -> scram.TokenLogin | None:
    """The login with the tokens x, whose owner is bob, and ann, which is no user here."""
    if token_id not in ("x", "ann"):
        return None
    return scram.TokenLogin("bob", SECRET.credential(SHA_256, token_id), EXPIRES_MS)


def outcome_of(extensions: str, name: str, password: str) -> Authenticated:
    """Log in with these extensions at the end of the first message."""
    server = scram.converse(SHA_256, of_ann, lambda: b"of this cluster", of_token)
    next(server)
    bare = f"n={name},r=nonce{extensions}"
    server_first = server.send(f"n,,{bare}".encode()).decode()
    fields = dict(part.split("=", 1) for part in server_first.split(","))
    salted = salted_password(SHA_256, password, base64.b64decode(fields["s"]), int(fields["i"]))
    without_proof = f"c=biws,r={fields['r']}"
    key = client_key(SHA_256, salted)
    signed = f"{bare},{server_first},{without_proof}".encode()
    signature = hmac.digest(stored_key(SHA_256, key), signed, SHA_256.digest)
    proof = base64.b64encode(bytes(a ^ b for a, b in zip(key, signature, strict=True))).decode()
    with pytest.raises(StopIteration) as done:
        server.send(f"{without_proof},p={proof}".encode())
    outcome: Authenticated = done.value.value
    return outcome


@pytest.mark.parametrize(
    "extensions",
    [",tokenauth=true", ",tokenauth=TRUE", ",a=b,tokenauth=true", ",tokenauth=no,tokenauth=true"],
)
def test_an_extension_asks_for_a_login_with_a_token(extensions: str) -> None:
    outcome = outcome_of(extensions, "x", password_of(SECRET.hmac("x")))
    assert (outcome.name, outcome.token_authenticated, outcome.expires_at_ms) == ("bob", True, EXPIRES_MS)
    for name, password in (("ann", "ann"), ("x", password_of(SECRET.hmac("y"))), ("x", ""), ("y", "y")):
        with pytest.raises(InvalidCredentials):
            outcome_of(extensions, name, password)


@pytest.mark.parametrize(
    "extensions", ["", ",a=b", ",tokenauth=false", ",tokenauth=true,tokenauth=1", ",x=tokenauth=true"]
)
def test_without_it_users_log_in_by_their_passwords(extensions: str) -> None:
    outcome = outcome_of(extensions, "ann", "ann")
    assert (outcome.name, outcome.token_authenticated, outcome.expires_at_ms) == ("ann", False, None)
    for name in ("x", "ann"):
        with pytest.raises(InvalidCredentials):
            outcome_of(extensions, name, password_of(SECRET.hmac(name)))
