"""SCRAM's arithmetic with the values of RFC 7677, and what is never shown."""

import base64
import hmac

import pytest

from penstock.protocol.messages import AlterUserScramCredentialsRequest, UserScramCredentialRecord
from penstock.security.scram import (
    ScramCredential,
    ScramMechanism,
    client_key,
    credential,
    salted_password,
    stored_key,
)

SHA_256 = ScramMechanism.SCRAM_SHA_256

# RFC 7677, section 3: user "user", password "pencil".
SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
NONCE = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
AUTH_MESSAGE = (
    f"n=user,r=rOprNGfwEbeRWgbNEkqO,r={NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,r={NONCE}"
).encode()
PROOF = base64.b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
SERVER_SIGNATURE = base64.b64decode("6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


def test_a_server_with_the_credential_accepts_the_rfcs_proof() -> None:
    kept = credential(SHA_256, SALT, salted_password(SHA_256, "pencil", SALT, 4096), 4096)
    assert (kept.salt, kept.iterations) == (SALT, 4096)
    client_signature = hmac.digest(kept.stored_key, AUTH_MESSAGE, "sha256")
    recovered = bytes(a ^ b for a, b in zip(PROOF, client_signature, strict=True))
    assert stored_key(SHA_256, recovered) == kept.stored_key
    assert hmac.digest(kept.server_key, AUTH_MESSAGE, "sha256") == SERVER_SIGNATURE


def test_the_keys_are_as_long_as_the_hash() -> None:
    salted = salted_password(ScramMechanism.SCRAM_SHA_512, "pencil", SALT, 4096)
    assert len(salted) == 64
    kept = credential(ScramMechanism.SCRAM_SHA_512, SALT, salted, 4096)
    assert {len(kept.stored_key), len(kept.server_key)} == {64}
    assert client_key(ScramMechanism.SCRAM_SHA_512, salted) not in (kept.stored_key, kept.server_key)


def test_mechanisms_by_number_and_title() -> None:
    assert [mechanism.title for mechanism in ScramMechanism] == ["SCRAM-SHA-256", "SCRAM-SHA-512"]
    assert ScramMechanism.of_title("SCRAM-SHA-512") is ScramMechanism.of_number(2)
    assert ScramMechanism.of_title("PLAIN") is None
    assert ScramMechanism.of_number(0) is None


@pytest.mark.parametrize(
    "holder",
    [
        ScramCredential(b"secret", b"secret", b"secret", 4096),
        UserScramCredentialRecord(name="a", salt=b"secret", stored_key=b"secret", server_key=b"secret"),
        AlterUserScramCredentialsRequest(
            upsertions=[
                AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
                    salt=b"secret", salted_password=b"secret"
                )
            ]
        ),
    ],
)
def test_what_logs_and_errors_show_has_no_secret(holder: object) -> None:
    assert "secret" not in repr(holder)
