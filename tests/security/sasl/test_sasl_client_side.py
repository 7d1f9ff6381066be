"""SASL without a socket: the RFCs' own examples, servers that lie, and Kafka's syntax of a login."""

import base64
import hashlib
import hmac

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.security.sasl.clients import Login, SaslRejected, converse, parse_login
from penstock.security.sasl.jaas import parse_jaas

LOGIN = Login("user", "pencil")
# RFC 7677, section 3.
NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def rfc_conversation():
    return converse("SCRAM-SHA-256", LOGIN, lambda: NONCE)


def test_plain_says_name_and_password_once():
    said = converse("PLAIN", Login("ü", "p=,w"))
    assert next(said) == b"\0\xc3\xbc\0p=,w"
    with pytest.raises(StopIteration):
        said.send(b"")


def test_scram_is_the_rfcs():
    said = rfc_conversation()
    assert next(said) == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert said.send(SERVER_FIRST) == CLIENT_FINAL
    with pytest.raises(StopIteration):
        said.send(SERVER_FINAL)


def test_scram_begins_anew_each_time():
    first, second = (next(converse("SCRAM-SHA-512", LOGIN)) for _ in range(2))
    assert first != second


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"r=another,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "its nonce does not continue ours"),
        (b"r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "its nonce does not continue"),
        (b"r=rOprNGfwEbeRWgbNEkqOx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=1", "1 iterations, expected 4096"),
        (b"r=rOprNGfwEbeRWgbNEkqOx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=999999999", "expected 4096 to"),
        (b"r=rOprNGfwEbeRWgbNEkqOx,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=many", "'many' iterations"),
        (b"r=rOprNGfwEbeRWgbNEkqOx,s=not base64!,i=4096", "expected base64"),
        (b"\xff\xfe", "its nonce does not continue"),
        (b"", "its nonce does not continue"),
    ],
)
def test_a_server_that_lies_at_first_gets_no_proof(answer, reason):
    said = rfc_conversation()
    next(said)
    with pytest.raises(SaslRejected, match=reason):
        said.send(answer)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"e=other-error", "other-error"),
        (b"v=" + base64.b64encode(bytes(32)), "cannot prove that it knows the password"),
        (b"v=6rriTRBi23WpRR", "expected base64"),
        (b"", "cannot prove that it knows the password"),
    ],
)
def test_a_server_without_the_password_is_found_out(answer, reason):
    said = rfc_conversation()
    next(said)
    said.send(SERVER_FIRST)
    with pytest.raises(SaslRejected, match=reason):
        said.send(answer)


@pytest.mark.parametrize(
    ("option", "extension"),
    [
        ("", ""),
        ("tokenauth=true", ",tokenauth=true"),
        ('tokenauth="TRUE"', ",tokenauth=true"),
        ("tokenauth=1", ""),
    ],
)
def test_a_login_with_a_token_says_so(option, extension):
    login = parse_login(f'a.ScramLoginModule required username="id" password="secret" {option};')
    assert login.by_token is bool(extension)
    said = converse("SCRAM-SHA-256", login, lambda: "nonce")
    assert next(said) == f"n,,n=id,r=nonce{extension}".encode()


class Server:
    """The server side of RFC 5802: it stores keys derived from a password, and checks the client's proof."""

    def __init__(self, digest, password):
        self._digest = digest
        self._salt = b"salt"
        salted = hashlib.pbkdf2_hmac(digest, password.encode(), self._salt, 4096)
        self._stored = hashlib.new(digest, hmac.digest(salted, b"Client Key", digest)).digest()
        self._server_key = hmac.digest(salted, b"Server Key", digest)

    def first(self, message):
        self._client_first = message.decode().removeprefix("n,,")
        self.name, nonce = self._client_first.removeprefix("n=").split(",r=")
        self._first = f"r={nonce}more,s={base64.b64encode(self._salt).decode()},i=4096"
        return self._first.encode()

    def final(self, message):
        bare, proof = message.decode().rsplit(",p=", 1)
        signed = f"{self._client_first},{self._first},{bare}".encode()
        signature = hmac.digest(self._stored, signed, self._digest)
        key = bytes(a ^ b for a, b in zip(base64.b64decode(proof), signature, strict=True))
        if hashlib.new(self._digest, key).digest() != self._stored:
            return b"e=invalid-proof"
        return b"v=" + base64.b64encode(hmac.digest(self._server_key, signed, self._digest))


texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)


@settings(max_examples=25)
@given(st.sampled_from(["SCRAM-SHA-256", "SCRAM-SHA-512"]), texts, texts, st.booleans())
def test_any_name_and_password(mechanism, name, password, is_right):
    server = Server(mechanism.removeprefix("SCRAM-").replace("-", "").lower(), password)
    said = converse(mechanism, Login(name, password if is_right else password + "x"))
    final = said.send(server.first(next(said)))
    assert server.name.replace("=2C", ",").replace("=3D", "=") == name
    with pytest.raises(StopIteration if is_right else SaslRejected):
        said.send(server.final(final))


@pytest.mark.parametrize(
    "text",
    [
        'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="b c";',
        'M required\n  username=a\n  password="b c" ;\n',
        'x.M  sufficient  password="b\\u0020c"  username="a";'.replace("\\u0020", " "),
        'M optional username="a" password="b\\ c" other=true;',
    ],
)
def test_logins_as_kafka_writes_them(text):
    assert parse_login(text) == Login("a", "b c")


def test_quotes_and_backslashes_are_escaped():
    assert parse_login(r'M required username="a\"b" password="c\\d;";') == Login('a"b', "c\\d;")
    assert parse_jaas('M required user_of-sales.a$="x";').options == {"user_of-sales.a$": "x"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "secret",
        'M required username="a" password="secret"',
        'M needed username="a" password="secret";',
        'M required username="" password="secret";',
        'M required password="secret";',
        'M required username="a" "secret";',
    ],
)
def test_what_is_no_login_is_told_without_the_password(text):
    with pytest.raises(ValueError, match="<login module> required username=") as caught:
        parse_login(text)
    assert "secret" not in str(caught.value)


def test_a_password_is_not_shown():
    assert "pencil" not in repr(LOGIN)
