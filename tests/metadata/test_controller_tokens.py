"""Delegation tokens: the controller's decisions."""

import hashlib
import hmac

import pytest
from controller_bench import ControllerBench

from penstock.metadata.controller.delegation_tokens import (
    EXPIRED_PER_ROUND_MAX,
    create_delegation_token,
    expire_delegation_token,
    remove_expired_tokens,
    renew_delegation_token,
)
from penstock.metadata.controller.state import Decision
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DelegationTokenRecord,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RemoveDelegationTokenRecord,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from penstock.security.delegation_tokens import TokenSecret

SECRET = "of the cluster"
ANN, BOB, CARL = "User:ann", "User:bob", "User:carl"
HOUR_MS = 3_600_000
SETTINGS = {
    "delegation.token.max.lifetime.ms": str(10 * HOUR_MS),
    "delegation.token.expiry.time.ms": str(2 * HOUR_MS),
}


class TokenBench(ControllerBench):
    """A controller with tokens."""

    secret: TokenSecret | None = TokenSecret(SECRET)

    def create_token(
        self,
        requester: str = ANN,
        *,
        owner: str | None = None,
        renewers: tuple[str, ...] = (),
        lifetime_ms: int = -1,
    ) -> CreateDelegationTokenResponse:
        kind, _, name = (owner or ":").partition(":")
        parted = [renewer.split(":", 1) for renewer in renewers]
        request = CreateDelegationTokenRequest(
            owner_principal_type=kind or None,
            owner_principal_name=name or None,
            renewers=[
                CreateDelegationTokenRequest.CreatableRenewers(principal_type=kind, principal_name=name)
                for kind, name in parted
            ],
            max_lifetime_ms=lifetime_ms,
        )
        return self.commit(
            create_delegation_token(
                self.state, request, requester=requester, secret=self.secret, now_ms=self.now_ms
            )
        )

    def renew(self, token_hmac: bytes, requester: str = ANN, period_ms: int = -1) -> tuple[ErrorCode, int]:
        request = RenewDelegationTokenRequest(hmac=token_hmac, renew_period_ms=period_ms)
        return self._told(
            renew_delegation_token(
                self.state, request, requester=requester, secret=self.secret, now_ms=self.now_ms
            )
        )

    def expire(self, token_hmac: bytes, requester: str = ANN, period_ms: int = -1) -> tuple[ErrorCode, int]:
        request = ExpireDelegationTokenRequest(hmac=token_hmac, expiry_time_period_ms=period_ms)
        return self._told(
            expire_delegation_token(
                self.state, request, requester=requester, secret=self.secret, now_ms=self.now_ms
            )
        )

    def _told(
        self, decision: Decision[RenewDelegationTokenResponse] | Decision[ExpireDelegationTokenResponse]
    ) -> tuple[ErrorCode, int]:
        """The error, or the time of expiry from now."""
        self.write(*decision.records)
        response = decision.response
        left_ms = 0 if response.error_code else response.expiry_timestamp_ms - self.now_ms
        return ErrorCode.of(response.error_code), left_ms


@pytest.fixture
def bench() -> TokenBench:
    return TokenBench(SETTINGS)


def test_a_token_is_created_with_an_hmac_of_its_id(bench: TokenBench) -> None:
    response = bench.create_token(renewers=(BOB, CARL))
    assert response.error_code == 0
    assert response.hmac == hmac.new(SECRET.encode(), response.token_id.encode(), hashlib.sha512).digest()
    [record] = bench.records
    assert isinstance(record, DelegationTokenRecord)
    assert record == DelegationTokenRecord(
        owner=ANN,
        requester=ANN,
        renewers=[BOB, CARL],
        issue_timestamp=bench.now_ms,
        max_timestamp=bench.now_ms + 10 * HOUR_MS,
        expiration_timestamp=bench.now_ms + 2 * HOUR_MS,
        token_id=response.token_id,
    )
    times = response.issue_timestamp_ms, response.expiry_timestamp_ms, response.max_timestamp_ms
    assert times == (record.issue_timestamp, record.expiration_timestamp, record.max_timestamp)
    assert (response.principal_type, response.principal_name) == ("User", "ann")


def test_neither_hmac_nor_secret_is_in_the_log(bench: TokenBench) -> None:
    response = bench.create_token()
    [record] = bench.records
    assert response.hmac not in record.encode(0)
    assert SECRET.encode() not in record.encode(0)
    assert SECRET not in repr(bench.secret)


@pytest.mark.parametrize(
    ("asked_ms", "lives_ms"), [(-1, 10 * HOUR_MS), (0, 10 * HOUR_MS), (1, 1), (HOUR_MS, HOUR_MS)]
)
def test_a_token_lives_no_longer_than_asked_or_allowed(
    bench: TokenBench, asked_ms: int, lives_ms: int
) -> None:
    response = bench.create_token(lifetime_ms=asked_ms)
    assert response.max_timestamp_ms - bench.now_ms == lives_ms
    assert response.expiry_timestamp_ms - bench.now_ms == min(lives_ms, 2 * HOUR_MS)
    assert bench.create_token(lifetime_ms=2**63 - 1).max_timestamp_ms - bench.now_ms == 10 * HOUR_MS


def test_only_users_renew(bench: TokenBench) -> None:
    response = bench.create_token(renewers=(BOB, "Group:all"))
    assert (response.error_code, response.token_id) == (ErrorCode.INVALID_PRINCIPAL_TYPE, "")
    assert bench.records == []


def test_owner_and_renewers_renew_a_token_and_others_do_not(bench: TokenBench) -> None:
    token = bench.create_token(ANN, owner=BOB, renewers=(CARL,)).hmac
    bench.now_ms += HOUR_MS
    assert bench.renew(token, BOB) == (ErrorCode.NONE, 2 * HOUR_MS)
    assert bench.renew(token, CARL, HOUR_MS) == (ErrorCode.NONE, HOUR_MS)
    assert bench.renew(token, CARL, 5 * HOUR_MS) == (ErrorCode.NONE, 2 * HOUR_MS), "at most the default"
    mismatch = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert bench.renew(token, ANN)[0] == mismatch, "it only asked for the token"
    assert bench.expire(token, ANN)[0] == mismatch
    assert bench.renew(token, "Group:bob")[0] == mismatch


def test_a_token_is_not_renewed_beyond_its_lifetime(bench: TokenBench) -> None:
    token = bench.create_token(lifetime_ms=3 * HOUR_MS).hmac
    bench.now_ms += 2 * HOUR_MS
    assert bench.renew(token) == (ErrorCode.NONE, HOUR_MS)
    bench.now_ms += HOUR_MS
    assert bench.renew(token) == (ErrorCode.NONE, 0), "in the last millisecond"
    bench.now_ms += 1
    assert bench.renew(token)[0] == ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert bench.expire(token, period_ms=HOUR_MS)[0] == ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert bench.expire(token, BOB, HOUR_MS)[0] == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert bench.expire(token) == (ErrorCode.NONE, 0), "it can still be removed"


def test_a_token_expires_later_or_at_once(bench: TokenBench) -> None:
    token = bench.create_token()
    assert bench.expire(token.hmac, period_ms=0) == (ErrorCode.NONE, 0)
    assert bench.expire(token.hmac, period_ms=5 * HOUR_MS) == (ErrorCode.NONE, 5 * HOUR_MS)
    assert bench.expire(token.hmac, period_ms=2**63 - 1) == (ErrorCode.NONE, 10 * HOUR_MS)
    assert list(bench.image.delegation_tokens) == [token.token_id]
    assert bench.expire(token.hmac) == (ErrorCode.NONE, 0)
    assert bench.records[-1] == RemoveDelegationTokenRecord(token_id=token.token_id)
    assert bench.renew(token.hmac)[0] == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


@pytest.mark.parametrize("unknown", [b"", b"no token's", TokenSecret("of another cluster").hmac("id")])
def test_an_hmac_of_no_token_is_not_found(bench: TokenBench, unknown: bytes) -> None:
    token = bench.create_token()
    for found in (bench.renew(unknown), bench.expire(unknown)):
        assert found[0] == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    assert list(bench.image.delegation_tokens) == [token.token_id]


def test_without_a_secret_tokens_are_disabled(bench: TokenBench) -> None:
    token = bench.create_token(owner=BOB).hmac
    bench.secret = None
    disabled = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    response = bench.create_token(owner=BOB)
    assert (response.error_code, response.principal_name) == (disabled, "bob")
    assert response.token_requester_principal_name == "ann"
    assert bench.renew(token, BOB)[0] == bench.expire(token, BOB)[0] == disabled


def test_an_old_metadata_version_has_no_tokens() -> None:
    bench = TokenBench(SETTINGS, metadata_version=13)
    unsupported = ErrorCode.UNSUPPORTED_VERSION
    assert bench.create_token().error_code == bench.renew(b"x")[0] == bench.expire(b"x")[0] == unsupported
    assert bench.records == []
    assert TokenBench(SETTINGS, metadata_version=14).create_token().error_code == 0


def test_expired_tokens_are_removed_in_rounds(bench: TokenBench) -> None:
    kept = bench.create_token()
    for _ in range(EXPIRED_PER_ROUND_MAX + 1):
        bench.create_token(lifetime_ms=HOUR_MS)
    bench.now_ms += HOUR_MS
    assert bench.do(remove_expired_tokens, bench.now_ms) is False, "none has expired yet"
    assert len(bench.image.delegation_tokens) == EXPIRED_PER_ROUND_MAX + 2
    bench.now_ms += 1
    assert bench.do(remove_expired_tokens, bench.now_ms) is True
    assert len(bench.image.delegation_tokens) == 2
    assert bench.do(remove_expired_tokens, bench.now_ms) is False
    assert list(bench.image.delegation_tokens) == [kept.token_id]


def test_an_id_never_looks_like_an_option(bench: TokenBench) -> None:
    ids = iter([b"\xf8" + bytes(15), b"\xfb" + bytes(15), bytes(16)])
    bench.state.new_uuid = lambda: next(ids)
    assert bench.create_token().token_id == "A" * 22
