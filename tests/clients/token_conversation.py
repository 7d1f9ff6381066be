"""Delegation tokens as several users ask for them and log in with them, for any broker of Kafka's protocol.

`converse` plays the stories and returns the transcript. `token_conversation.txt` has the answers of Apache
Kafka 4.3.1. Tokens have names in it instead of ids, and times are differences.
"""

from collections.abc import Callable
from contextlib import ExitStack

from penstock.protocol import messages as m
from penstock.protocol.codec import Message
from penstock.protocol.errors import ErrorCode
from penstock.security.acls import Operation, PatternType, PermissionType, ResourceType
from penstock.security.delegation_tokens import password_of
from penstock.security.sasl.clients import Login
from token_wire import TokenWire
from waiting import wait_until

Token = m.CreateDelegationTokenResponse
HOUR_MS, DAY_MS = 3_600_000, 86_400_000


class Talk:
    """The connections of a conversation and the lines of its transcript."""

    def __init__(self, bootstrap: str, opened: ExitStack) -> None:
        self._bootstrap = bootstrap
        self._opened = opened
        self.lines: list[str] = []
        self.tokens: dict[str, Token] = {}
        """The tokens by the names that the transcript has for them."""

    def connect(self) -> TokenWire:
        return self._opened.enter_context(TokenWire(self._bootstrap))

    def user(self, name: str) -> TokenWire:
        return self.connect().as_user(name)

    def say(self, line: str) -> None:
        self.lines.append(line)

    def create(
        self,
        title: str,
        wire: TokenWire,
        owner: str | None = None,
        renewers: tuple[str, ...] = (),
        lifetime_ms: int = -1,
    ) -> None:
        """Create a token and name it, and wait until the broker knows it."""
        token = wire.create(owner=owner, renewers=renewers, lifetime_ms=lifetime_ms)
        asked = f"owner={owner} renewers={','.join(renewers)} lifetime={lifetime_ms}"
        self.say(f"create {title} {asked}: {created(token)}")
        if not token.error_code:
            self.tokens[title] = token
            wait_until(lambda: token.token_id in self._of_all())

    def renew(self, title: str, wire: TokenWire, period_ms: int = -1) -> None:
        request = m.RenewDelegationTokenRequest(hmac=self._hmac(title), renew_period_ms=period_ms)
        response = wire.ask(request, m.RenewDelegationTokenResponse)
        self.say(f"renew {title} {period_ms}: {self._changed(title, response)}")

    def expire(self, title: str, wire: TokenWire, period_ms: int = -1) -> None:
        request = m.ExpireDelegationTokenRequest(hmac=self._hmac(title), expiry_time_period_ms=period_ms)
        response = wire.ask(request, m.ExpireDelegationTokenResponse)
        self.say(f"expire {title} {period_ms}: {self._changed(title, response)}")
        if not response.error_code and period_ms < 0:
            token_id = self.tokens[title].token_id
            wait_until(lambda: token_id not in self._of_all())

    def describe(self, who: str, wire: TokenWire, *owners: str, all_owners: bool = False) -> None:
        response = wire.describe(*owners, all_owners=all_owners)
        names = {token.token_id: title for title, token in self.tokens.items()}
        found = sorted(
            f"{names[token.token_id]} (owner {token.principal_type}:{token.principal_name}, requester "
            f"{token.token_requester_principal_type}:{token.token_requester_principal_name}, renewers "
            f"{[f'{each.principal_type}:{each.principal_name}' for each in token.renewers]}, "
            f"{'its own' if token.hmac == self.tokens[names[token.token_id]].hmac else 'another'} HMAC)"
            for token in response.tokens
        )
        asked = "everybody's" if all_owners else list(owners)
        self.say(f"{who} describes {asked}: {ErrorCode.of(response.error_code).name} {'; '.join(found)}")

    def log_in(
        self, title: str, token_id: str, password: str, *, mechanism: str = "SCRAM-SHA-256"
    ) -> TokenWire:
        """Log in with an id and a password as if they were a token's."""
        wire = self.connect()
        answer = wire.log_in(mechanism, Login(token_id, password, by_token=True))
        code = ErrorCode.of(answer.error_code).name
        lifetime = hours_left(answer.session_lifetime_ms)
        self.say(f"log in with {title} by {mechanism}: {code} {answer.error_message!r} for {lifetime} h")
        return wire

    def log_in_with(self, title: str, mechanism: str = "SCRAM-SHA-256") -> TokenWire:
        token = self.tokens[title]
        return self.log_in(title, token.token_id, password_of(token.hmac), mechanism=mechanism)

    def allow(self, principal: str, operation: Operation, kind: ResourceType, name: str) -> None:
        creation = m.CreateAclsRequest.AclCreation(
            resource_type=kind,
            resource_name=name,
            resource_pattern_type=PatternType.LITERAL,
            principal=principal,
            host="*",
            operation=operation,
            permission_type=PermissionType.ALLOW,
        )
        wire = self.user("admin")
        wire.ask(m.CreateAclsRequest(creations=[creation]), m.CreateAclsResponse)
        wait_until(lambda: self._has_acl(wire, principal, operation))

    def _has_acl(self, wire: TokenWire, principal: str, operation: Operation) -> bool:
        request = m.DescribeAclsRequest(
            resource_type_filter=ResourceType.ANY,
            resource_name_filter=None,
            principal_filter=principal,
            host_filter=None,
            pattern_type_filter=PatternType.ANY,
            operation=operation,
            permission_type=PermissionType.ANY,
        )
        return bool(wire.ask(request, m.DescribeAclsResponse).resources)

    def _of_all(self) -> set[str]:
        with TokenWire(self._bootstrap) as admin:
            return admin.as_user("admin").seen()

    def _hmac(self, title: str) -> bytes:
        return self.tokens[title].hmac if title in self.tokens else b"the HMAC of no token"

    def _changed(
        self, title: str, response: m.RenewDelegationTokenResponse | m.ExpireDelegationTokenResponse
    ) -> str:
        code, expiry_ms = ErrorCode.of(response.error_code).name, response.expiry_timestamp_ms
        if response.error_code:
            return f"{code} expiry={expiry_ms}"
        token = self.tokens[title]
        left_ms = expiry_ms - token.issue_timestamp_ms
        return f"{code} expires {hours_since(left_ms)} h after its creation"


def created(token: Token) -> str:
    code = ErrorCode.of(token.error_code).name
    who = (
        f"owner {token.principal_type}:{token.principal_name} requester "
        f"{token.token_requester_principal_type}:{token.token_requester_principal_name}"
    )
    if token.error_code:
        times = token.issue_timestamp_ms, token.expiry_timestamp_ms, token.max_timestamp_ms
        return f"{code} {who} times={times} id={token.token_id!r} hmac={token.hmac!r}"
    expiry_ms, most_ms = (
        token.expiry_timestamp_ms - token.issue_timestamp_ms,
        token.max_timestamp_ms - token.issue_timestamp_ms,
    )
    return f"{code} {who} expires={expiry_ms} at most={most_ms} HMAC of {len(token.hmac)} bytes"


def hours_left(ms: int) -> int:
    """The hours of a session, of which some moments have passed."""
    return -(-ms // HOUR_MS)


def hours_since(ms: int) -> int:
    """The whole hours of a time that is counted from a token's creation."""
    return ms // HOUR_MS


def own_tokens(talk: Talk) -> None:
    ann = talk.user("ann")
    talk.create("own", ann)
    talk.create("short", ann, lifetime_ms=HOUR_MS)
    talk.create("long", ann, lifetime_ms=30 * DAY_MS)
    talk.create("renewable", ann, renewers=("User:bob", "User:carl"))
    talk.create("of a group", ann, renewers=("Group:g",))
    talk.create("named", ann, owner="User:ann")
    talk.describe("ann", ann, all_owners=True)
    talk.describe("ann", ann)
    talk.describe("ann", ann, "User:bob")
    talk.describe("ann", ann, "User:nobody", "User:carl")


def tokens_of_others(talk: Talk) -> None:
    bob, carl = talk.user("bob"), talk.user("carl")
    talk.create("forbidden", bob, owner="User:ann")
    talk.create("forbidden", bob, owner="User:ann", renewers=("Group:g",))
    talk.describe("bob", bob, all_owners=True)
    talk.describe("bob", bob, "User:ann")
    talk.allow("User:bob", Operation.CREATE_TOKENS, ResourceType.USER, "User:ann")
    talk.create("by bob", bob, owner="User:ann")
    talk.describe("bob", bob, all_owners=True)
    talk.renew("by bob", bob)
    talk.expire("by bob", bob)
    talk.allow("User:carl", Operation.DESCRIBE_TOKENS, ResourceType.USER, "User:ann")
    talk.describe("carl", carl, all_owners=True)
    talk.create("forbidden", carl, owner="User:ann")
    talk.allow("User:bob", Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, talk.tokens["own"].token_id)
    talk.describe("bob", bob, "User:ann")
    talk.describe("admin", talk.user("admin"), "User:bob")


def renewals(talk: Talk) -> None:
    ann, bob, carl = talk.user("ann"), talk.user("bob"), talk.user("carl")
    talk.renew("own", ann)
    talk.renew("own", ann, HOUR_MS)
    talk.renew("own", ann, 30 * DAY_MS)
    talk.renew("short", ann)
    talk.renew("renewable", bob, HOUR_MS)
    talk.renew("own", bob)
    talk.renew("no token", bob)
    talk.renew("own", talk.user("admin"))
    talk.expire("renewable", carl, 2 * HOUR_MS)
    talk.expire("renewable", ann, 30 * DAY_MS)
    talk.expire("own", carl)
    talk.expire("no token", ann, 0)


def logins(talk: Talk) -> None:
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        wire = talk.log_in_with("short", mechanism)
        talk.say(f"served: {wire.is_served()}")
    talk.create("by a token", wire)
    talk.create("by a token", wire, owner="User:bob")
    talk.renew("own", wire)
    talk.expire("own", wire)
    talk.describe("ann by a token", wire, all_owners=True)
    wrong = password_of(talk.tokens["own"].hmac)
    talk.log_in("another token's HMAC", talk.tokens["short"].token_id, wrong)
    talk.log_in("no token", "no token", wrong)
    talk.log_in("a user's name", "ann", "of-ann")
    plain = talk.connect().log_in(
        "SCRAM-SHA-256", Login(talk.tokens["own"].token_id, password_of(talk.tokens["own"].hmac))
    )
    talk.say(f"without tokenauth: {ErrorCode.of(plain.error_code).name} {plain.error_message!r}")


def again(talk: Talk) -> None:
    """The same user on the same connection, with another token and another user's."""
    wire = talk.log_in_with("short")
    with_another = wire.by_token(talk.tokens["own"].token_id, talk.tokens["own"].hmac)
    talk.say(f"again with another token: {ErrorCode.of(with_another.error_code).name}")
    talk.create("of bob", talk.user("bob"))
    wire = talk.log_in_with("short")
    with_others = wire.by_token(talk.tokens["of bob"].token_id, talk.tokens["of bob"].hmac)
    talk.say(
        f"again with bob's token: {ErrorCode.of(with_others.error_code).name} {with_others.error_message!r}"
    )


def removals(talk: Talk) -> None:
    ann = talk.user("ann")
    inside = talk.log_in_with("short")
    talk.expire("short", ann)
    talk.say(f"still served: {inside.is_served()}")
    talk.log_in_with("short")
    talk.renew("short", ann)
    talk.expire("short", ann)
    talk.expire("renewable", talk.user("bob"))


def expired(talk: Talk) -> None:
    ann = talk.user("ann")
    talk.create("of a moment", ann, lifetime_ms=1)
    wait_until(lambda: ann.renew(talk.tokens["of a moment"].hmac) is not ErrorCode.NONE)
    talk.renew("of a moment", ann)
    talk.expire("of a moment", ann, HOUR_MS)
    talk.describe("ann", ann, "User:ann")
    wire = talk.log_in_with("of a moment")
    talk.say(f"served: {wire.is_served()}")
    talk.expire("of a moment", ann)


def old_versions(talk: Talk) -> None:
    ann = talk.user("ann")
    ask: tuple[tuple[Message, type[Message]], ...] = (
        (m.CreateDelegationTokenRequest(max_lifetime_ms=-1), m.CreateDelegationTokenResponse),
        (m.RenewDelegationTokenRequest(hmac=b"x"), m.RenewDelegationTokenResponse),
        (m.ExpireDelegationTokenRequest(hmac=b"x"), m.ExpireDelegationTokenResponse),
        (m.DescribeDelegationTokenRequest(owners=[]), m.DescribeDelegationTokenResponse),
    )
    for request, kind in ask:
        response = ann.ask(request, kind, 1)
        code = ErrorCode.of(getattr(response, "error_code", -1)).name
        talk.say(f"{type(request).__name__} in version 1: {code}")


STORIES: tuple[Callable[[Talk], None], ...] = (
    *(own_tokens, tokens_of_others, renewals, logins, again, removals, expired, old_versions),
)


def converse(bootstrap: str) -> str:
    """Play all stories, one after the other."""
    with ExitStack() as opened:
        talk = Talk(bootstrap, opened)
        for story in STORIES:
            talk.say(f"# {story.__name__.replace('_', ' ')}")
            story(talk)
        return "".join(f"{line}\n" for line in talk.lines)
