"""A client that logs in by passwords or delegation tokens, and asks about tokens."""

from typing import Final, Self

from broker_wire import Wire
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from penstock.security.delegation_tokens import password_of
from penstock.security.sasl.clients import Login, SaslRejected
from penstock.security.sasl.clients import converse as log_in

PLAIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
SECRET: Final = "the secret of all nodes"
USERS: Final = ("node", "admin", "ann", "bob", "carl")
SETTINGS: Final = {
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": (
        f'{PLAIN} required username="node" password="of-node" '
        + " ".join(f'user_{user}="of-{user}"' for user in USERS)
        + ";"
    ),
    "listener.name.plaintext.scram-sha-256.sasl.jaas.config": f"{SCRAM} required;",
    "listener.name.plaintext.scram-sha-512.sasl.jaas.config": f"{SCRAM} required;",
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:node;User:admin;User:ANONYMOUS",
    "delegation.token.secret.key": SECRET,
}
"""Users with the passwords ``of-NAME`` on a node that has tokens. The controller knows nodes as ANONYMOUS."""


class TokenWire(Wire):
    """A connection to a listener with SASL."""

    def log_in(self, mechanism: str, login: Login) -> SaslAuthenticateResponse:
        """Log in, and return the last answer, which may be a refusal."""
        assert self.ask(SaslHandshakeRequest(mechanism=mechanism), SaslHandshakeResponse).error_code == 0
        talking = log_in(mechanism, login)
        message = next(talking)
        while True:
            answer = self.ask(SaslAuthenticateRequest(auth_bytes=message), SaslAuthenticateResponse)
            if answer.error_code:
                return answer
            try:
                message = talking.send(bytes(answer.auth_bytes))
            except StopIteration:
                return answer
            except SaslRejected as rejected:
                raise AssertionError("the node does not know the password") from rejected

    def as_user(self, name: str) -> Self:
        """Log in as a user by password."""
        answer = self.log_in("PLAIN", Login(name, f"of-{name}"))
        assert answer.error_code == 0, answer.error_message
        return self

    def by_token(
        self, token_id: str, token_hmac: bytes, mechanism: str = "SCRAM-SHA-256"
    ) -> SaslAuthenticateResponse:
        return self.log_in(mechanism, Login(token_id, password_of(token_hmac), by_token=True))

    def is_served(self) -> bool:
        """Whether the node serves this client."""
        try:
            request = FindCoordinatorRequest(key_type=9, coordinator_keys=["x"])
            return bool(self.ask(request, FindCoordinatorResponse, 4).coordinators)
        except (ConnectionError, OSError):
            return False

    def create(
        self, *, owner: str | None = None, renewers: tuple[str, ...] = (), lifetime_ms: int = -1
    ) -> CreateDelegationTokenResponse:
        kind, name = owner.split(":", 1) if owner else (None, None)
        parted = [renewer.split(":", 1) for renewer in renewers]
        request = CreateDelegationTokenRequest(
            owner_principal_type=kind,
            owner_principal_name=name,
            renewers=[
                CreateDelegationTokenRequest.CreatableRenewers(principal_type=kind, principal_name=name)
                for kind, name in parted
            ],
            max_lifetime_ms=lifetime_ms,
        )
        return self.ask(request, CreateDelegationTokenResponse)

    def renew(self, token_hmac: bytes, period_ms: int = -1) -> ErrorCode:
        request = RenewDelegationTokenRequest(hmac=token_hmac, renew_period_ms=period_ms)
        return ErrorCode.of(self.ask(request, RenewDelegationTokenResponse).error_code)

    def expire(self, token_hmac: bytes, period_ms: int = -1) -> ErrorCode:
        request = ExpireDelegationTokenRequest(hmac=token_hmac, expiry_time_period_ms=period_ms)
        return ErrorCode.of(self.ask(request, ExpireDelegationTokenResponse).error_code)

    def describe(self, *owners: str, all_owners: bool = False) -> DescribeDelegationTokenResponse:
        parted = [owner.split(":", 1) for owner in owners]
        asked = [
            DescribeDelegationTokenRequest.DescribeDelegationTokenOwner(
                principal_type=kind, principal_name=name
            )
            for kind, name in parted
        ]
        request = DescribeDelegationTokenRequest(owners=None if all_owners else asked)
        return self.ask(request, DescribeDelegationTokenResponse)

    def seen(self) -> set[str]:
        """The ids of all tokens that the client may see."""
        response = self.describe(all_owners=True)
        assert response.error_code == 0
        return {token.token_id for token in response.tokens}
