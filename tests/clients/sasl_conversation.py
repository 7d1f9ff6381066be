"""Logins by SASL and what goes wrong with them, compared field by field, for any broker of Kafka's protocol.

`converse` plays them and returns the transcript. `sasl_conversation.txt` has the answers of Apache Kafka
4.3.1. Nonces and signatures of SCRAM differ between runs; they are checked and left out.
"""

import re
import struct
import time
from collections.abc import Callable

from broker_wire import Wire
from penstock.protocol import messages as m
from penstock.protocol.codec import Message
from penstock.protocol.errors import ErrorCode
from penstock.security.oauth.names import MODULE, UNSECURED_HANDLER
from penstock.security.sasl.clients import Login, SaslRejected
from penstock.security.sasl.clients import converse as log_in
from penstock.security.scram import ScramMechanism, salted_password
from penstock.security.tokens.unsecured import unsecured_token

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
SETTINGS = {
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,OAUTHBEARER",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": (
        f'{PLAIN} required username="node" password="of-node" user_node="of-node" user_ann="of-ann";'
    ),
    "listener.name.plaintext.plain.connections.max.reauth.ms": "60000",
    "listener.name.plaintext.scram-sha-256.sasl.jaas.config": f"{SCRAM} required;",
    "listener.name.plaintext.oauthbearer.sasl.jaas.config": (
        f'{MODULE} required unsecuredLoginStringClaim_sub="node" unsecuredValidatorRequiredScope="a";'
    ),
    "listener.name.plaintext.oauthbearer.sasl.server.callback.handler.class": UNSECURED_HANDLER,
    "listener.name.plaintext.oauthbearer.connections.max.reauth.ms": "60000",
}
ANN, NODE = b"\0ann\0of-ann", b"\0node\0of-node"
SALT, ITERATIONS = b"a salt that is long enough", 4096
CLOSES_WITHIN_S = 10


class Client:
    """A connection whose steps write lines of the transcript."""

    def __init__(self, bootstrap: str, lines: list[str]) -> None:
        self.wire = Wire(bootstrap)
        self._lines = lines
        self.is_refused = False

    def ask(self, request: Message, version: int | None = None) -> Message | None:
        """Ask, and write the answer, or that there is none."""
        name = type(request).__name__
        kind = getattr(m, name.replace("Request", "Response"))
        try:
            answer: Message = self.wire.ask(request, kind, version)
        except (ConnectionError, OSError):
            self._lines.append(f"{name}: closed")
            return None
        self._lines.append(f"{name}: {shown(answer)}")
        return answer

    def handshake(self, mechanism: str = "PLAIN", version: int = 1) -> None:
        self.ask(m.SaslHandshakeRequest(mechanism=mechanism), version)

    def authenticate(self, message: bytes, version: int = 2) -> bytes:
        answer = self.ask(m.SaslAuthenticateRequest(auth_bytes=message), version)
        self.is_refused = answer is None or bool(getattr(answer, "error_code", 0))
        return bytes(answer.auth_bytes) if isinstance(answer, m.SaslAuthenticateResponse) else b""

    def scram(self, name: str, password: str) -> None:
        """Log in by SCRAM with both sides' proofs checked."""
        self.handshake("SCRAM-SHA-256")
        talking = log_in("SCRAM-SHA-256", Login(name, password), lambda: "mine")
        message = next(talking)
        try:
            while True:
                message = talking.send(self.authenticate(message))
        except StopIteration:
            self._lines.append("the broker knows the password")
        except SaslRejected:
            self._lines.append("the broker does not know the password")

    def oauth(self, message: bytes) -> None:
        """Log in by OAUTHBEARER, and acknowledge a refusal."""
        self.handshake("OAUTHBEARER")
        if self.authenticate(message):
            self.authenticate(b"\1")

    def raw(self, message: bytes) -> None:
        self.wire.socket.sendall(struct.pack(">i", len(message)) + message)
        try:
            self._lines.append(f"raw answer: {self.wire.receive_frame()!r}")
        except (ConnectionError, OSError):
            self._lines.append("raw answer: closed")

    def is_in(self) -> None:
        """Ask for something that only an authenticated client gets."""
        self.ask(m.FindCoordinatorRequest(key_type=9, coordinator_keys=["x"]), 4)

    def closed(self) -> None:
        self._lines.append(f"closed: {self.wire.is_closed(CLOSES_WITHIN_S)}")


def shown(answer: Message) -> str:
    if isinstance(answer, m.SaslAuthenticateResponse):
        text = bytes(answer.auth_bytes).decode()
        text = re.sub("r=mine[^,]+", "r=NONCE", re.sub("v=.+", "v=SIGNATURE", text))
        code = ErrorCode.of(answer.error_code).name
        return f"{code} {answer.error_message!r} {text!r} {answer.session_lifetime_ms} ms"
    if isinstance(answer, m.SaslHandshakeResponse):
        return f"{ErrorCode.of(answer.error_code).name} {sorted(answer.mechanisms)}"
    if isinstance(answer, m.ApiVersionsResponse):
        return ErrorCode.of(answer.error_code).name
    return "answered"


def versions_and_plain(client: Client) -> None:
    client.ask(m.ApiVersionsRequest(), 0)
    client.handshake()
    client.authenticate(ANN)
    client.is_in()
    client.authenticate(ANN)
    client.is_in()


def old_versions(client: Client) -> None:
    client.handshake()
    client.authenticate(ANN, version=0)
    client.is_in()


def refused_versions(client: Client) -> None:
    client.ask(m.ApiVersionsRequest(client_software_name="no such name!", client_software_version="1"), 3)
    client.ask(m.ApiVersionsRequest(client_software_name="test", client_software_version="1"), 3)
    client.handshake()
    client.authenticate(ANN)


def other_requests_first(client: Client) -> None:
    client.ask(m.MetadataRequest())


def authenticate_first(client: Client) -> None:
    client.authenticate(ANN)


def other_mechanisms(client: Client) -> None:
    client.handshake("GSSAPI")
    client.closed()


def raw_messages(client: Client) -> None:
    client.handshake(version=0)
    client.raw(ANN)
    client.is_in()


def wrong_raw_messages(client: Client) -> None:
    client.handshake(version=0)
    client.raw(b"\0ann\0wrong")


def too_large(client: Client) -> None:
    client.wire.socket.sendall(struct.pack(">i", 524_289))
    client.closed()


def again(client: Client) -> None:
    client.handshake()
    client.authenticate(ANN)
    client.handshake()
    client.authenticate(ANN)
    client.is_in()
    client.handshake()
    client.is_in()


def as_another(client: Client) -> None:
    client.handshake()
    client.authenticate(ANN)
    client.handshake()
    client.authenticate(NODE)
    client.closed()


def by_another_mechanism(client: Client) -> None:
    client.handshake()
    client.authenticate(ANN)
    client.handshake("SCRAM-SHA-256")
    client.authenticate(b"n,,n=ann,r=mine")
    client.closed()


def wrong_again(client: Client) -> None:
    client.handshake()
    client.authenticate(ANN)
    client.handshake()
    client.authenticate(b"\0ann\0wrong")
    client.closed()


def create_scram_user(client: Client) -> None:
    client.handshake()
    client.authenticate(NODE)
    salted = salted_password(ScramMechanism.SCRAM_SHA_256, "of-ann", SALT, ITERATIONS)
    upsertion = m.AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
        name="ann", mechanism=1, iterations=ITERATIONS, salt=SALT, salted_password=salted
    )
    client.ask(m.AlterUserScramCredentialsRequest(upsertions=[upsertion]))


def scram_login(client: Client) -> None:
    client.scram("ann", "of-ann")
    client.is_in()


def scram_wrong_password(client: Client) -> None:
    client.scram("ann", "wrong")
    client.closed()


def scram_twice(client: Client) -> None:
    client.scram("ann", "of-ann")
    client.scram("ann", "of-ann")
    client.is_in()


def token(principal: str = "ann", scope: str = "a", age_s: int = 0) -> str:
    options = {"unsecuredLoginStringClaim_sub": principal, "unsecuredLoginStringClaim_scope": scope}
    return unsecured_token(options, int(time.time() - age_s) * 1000)


def oauth_login(client: Client) -> None:
    client.oauth(f"n,a=ann,\1auth=Bearer {token()}\1traceId=7\1\1".encode())
    client.is_in()


def oauth_as_another(client: Client) -> None:
    for principal in ("ann", "bob"):
        client.oauth(f"n,,\1auth=Bearer {token(principal)}\1\1".encode())
    client.closed()


def oauth_raw_messages(client: Client) -> None:
    client.handshake("OAUTHBEARER", version=0)
    client.raw(b"n,,\1auth=Bearer x\1\1")
    client.raw(b"\1")


def _oauth(message: Callable[[], str]) -> Callable[[Client], None]:
    def story(client: Client) -> None:
        client.oauth(message().encode())
        client.closed()

    return story


def _plain(message: bytes) -> Callable[[Client], None]:
    def story(client: Client) -> None:
        client.handshake()
        client.authenticate(message)
        if client.is_refused:
            client.closed()
        else:
            client.is_in()

    return story


def _scram(message: bytes) -> Callable[[Client], None]:
    def story(client: Client) -> None:
        client.handshake("SCRAM-SHA-256")
        client.authenticate(message)
        client.closed()

    return story


STORIES: dict[str, Callable[[Client], None]] = {
    **{
        story.__name__.replace("_", " "): story
        for story in (
            *(versions_and_plain, old_versions, refused_versions, other_requests_first, authenticate_first),
            *(other_mechanisms, raw_messages, wrong_raw_messages, too_large, again, as_another),
            *(by_another_mechanism, wrong_again, create_scram_user, scram_login, scram_wrong_password),
            *(scram_twice, oauth_login, oauth_as_another, oauth_raw_messages),
        )
    },
    **{
        f"OAUTHBEARER {name}": _oauth(message)
        for name, message in {
            "expired": lambda: f"n,,\1auth=Bearer {token(age_s=7200)}\1\1",
            "without the scope": lambda: f"n,,\1auth=Bearer {token(scope='b')}\1\1",
            "with no token": lambda: "n,,\1auth=Bearer a.b.c\1\1",
            "for another": lambda: f"n,a=bob,\1auth=Bearer {token()}\1\1",
            "for nobody": lambda: f"n,a=,\1auth=Bearer {token()}\1\1",
            "with channel binding": lambda: f"y,,\1auth=Bearer {token()}\1\1",
            "without a token": lambda: "n,,\1\1",
            "empty": lambda: "",
            "acknowledging": lambda: "\1",
        }.items()
    },
    **{
        f"PLAIN {message!r}": _plain(message)
        for message in (
            *(b"", b"ann", b"ann\0of-ann", b"\0ann\0", b"\0\0of-ann", b"\0ann\0wrong", b"\0bob\0of-ann"),
            *(b"node\0ann\0of-ann", b"ann\0ann\0of-ann", b"\0ann\0of-ann\0", b"\0ann\0of-ann\0\0"),
        )
    },
    **{
        f"SCRAM {message!r}": _scram(message)
        for message in (
            *(
                b"",
                b"n,,",
                b"y,,n=ann,r=mine",
                b"p=tls-unique,,n=ann,r=mine",
                b"n,,n=,r=mine",
                b"n,,n=ann,r=",
            ),
            *(b"n,a=node,n=ann,r=mine", b"n,,n=an=n,r=mine", b"n,,n=ann,r=mi ne", b"n,,r=mine,n=ann"),
        )
    },
}


def converse(bootstrap: str) -> str:
    """Play all stories, each on connections of its own."""
    lines: list[str] = []
    for name, story in STORIES.items():
        lines.append(f"# {name}")
        client = Client(bootstrap, lines)
        try:
            story(client)
        finally:
            client.wire.socket.close()
    return "".join(f"{line}\n" for line in lines)
