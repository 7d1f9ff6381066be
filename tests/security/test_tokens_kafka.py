"""Random requests for delegation tokens: the same records and responses as Apache Kafka's own classes."""

import os
import random
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, cast

import pytest

from kafka_node import run_java
from long_run import repetitions
from penstock.broker.api.describe_delegation_token import Parts, handle
from penstock.broker.control import forwarding
from penstock.broker.network.context import RequestContext
from penstock.metadata.configs import BrokerConfig
from penstock.metadata.controller.delegation_tokens import (
    create_delegation_token,
    expire_delegation_token,
    remove_expired_tokens,
    renew_delegation_token,
)
from penstock.metadata.controller.state import ControllerState, Decision
from penstock.metadata.image import MetadataImage
from penstock.protocol import messages as m
from penstock.protocol.codec import Message
from penstock.protocol.uuids import uuid_from_text
from penstock.security.acls import Operation, ResourceType
from penstock.security.delegation_tokens import TokenSecret
from penstock.security.permissions import UNRESTRICTED, Unrestricted

pytestmark = [pytest.mark.kafka, pytest.mark.longer, pytest.mark.timeout(600)]

REQUESTS = repetitions("PENSTOCK_TOKEN_REQUESTS", gate=3_000, long=200_000)
SECRET = "the sècret of all"
MAX_LIFETIME_MS, EXPIRY_TIME_MS = 10_000, 3_000
PRINCIPALS = ("User:ann", "User:bob", "User:c:d", "User:", "Group:ann", ":ann")
LEVELS = (30, 30, 30, 30, 30, 30, 14, 13)
PERIODS_MS = (-(2**63), -1, 0, 1, 500, 2_999, 3_000, 3_001, 9_999, 10_001, 2**63 - 1)
DECISIONS: dict[str, Callable[..., Decision[Any]]] = {
    "create": create_delegation_token,
    "renew": renew_delegation_token,
    "expire": expire_delegation_token,
}
UNKNOWN_HMAC = b"\1\2\3"


class Command(NamedTuple):
    """A request for the token with a number, counted from the newest, or for one that nobody has (-1)."""

    verb: str
    level: int
    flag: bool
    """Whether there is a secret; of a principal, whether it has logged in with a token."""
    now_ms: int
    requester: str
    number: int
    request: Message | None = None
    period_ms: int = 0
    may_describe: tuple[int, ...] = ()
    may_describe_of: tuple[str, ...] = ()

    def line(self) -> str:
        flag = str(self.flag).lower()
        words = [self.verb, self.level, flag, self.now_ms, self.requester, self.number]
        if self.request is not None:
            words.append(self.request.encode(3).hex())
            words.append(" ".join(map(str, self.may_describe)))
            words.append(" ".join(self.may_describe_of))
        else:
            words.append(self.period_ms)
        return "\t".join(map(str, words))


@pytest.fixture
def rng() -> random.Random:
    seed = int(os.environ.get("PENSTOCK_SEED", random.randrange(2**32)))
    print(f"PENSTOCK_SEED={seed}")
    return random.Random(seed)


def random_commands(rng: random.Random) -> list[Command]:
    found: list[Command] = []
    now_ms = 1_000_000
    for _ in range(REQUESTS):
        now_ms += rng.choice((0, 0, 1, 50, 700))
        verb = rng.choices(("create", "renew", "expire", "describe", "sweep"), (30, 30, 20, 15, 2))[0]
        common = (
            *(verb, rng.choice(LEVELS), rng.random() < 0.95, now_ms, rng.choice(PRINCIPALS)),
            rng.randrange(-1, 25),
        )
        if verb == "create":
            found.append(Command(*common, request=random_creation(rng)))
        elif verb == "describe":
            found.append(
                Command(
                    *common,
                    request=random_description(rng),
                    may_describe=tuple(rng.randrange(25) for _ in range(rng.randrange(4))),
                    may_describe_of=tuple(rng.sample(PRINCIPALS, rng.randrange(3))),
                )
            )
        else:
            found.append(Command(*common, period_ms=rng.choice(PERIODS_MS)))
    return found


def random_creation(rng: random.Random) -> m.CreateDelegationTokenRequest:
    names = ("ann", "bob", "c:d", "")
    owned = rng.random() < 0.4
    return m.CreateDelegationTokenRequest(
        owner_principal_type=rng.choice(("User", "User", "Group")) if owned else None,
        owner_principal_name=rng.choice(names) if owned else rng.choice((None, "")),
        renewers=[
            m.CreateDelegationTokenRequest.CreatableRenewers(
                principal_type=rng.choices(("User", "Group"), (12, 1))[0], principal_name=rng.choice(names)
            )
            for _ in range(rng.choice((0, 0, 1, 2, 3)))
        ],
        max_lifetime_ms=rng.choice(PERIODS_MS),
    )


def random_description(rng: random.Random) -> m.DescribeDelegationTokenRequest:
    if rng.random() < 0.4:
        return m.DescribeDelegationTokenRequest(owners=rng.choice((None, None, [])))
    parted = [principal.split(":", 1) for principal in rng.sample(PRINCIPALS, rng.randint(1, 3))]
    return m.DescribeDelegationTokenRequest(
        owners=[
            m.DescribeDelegationTokenRequest.DescribeDelegationTokenOwner(
                principal_type=kind, principal_name=name
            )
            for kind, name in parted
        ]
    )


def kafkas_answers(libs: Path, scratch: Path, commands: Sequence[Command]) -> list[list[str]]:
    file = scratch / "commands"
    file.write_text("".join(f"{command.line()}\n" for command in commands))
    source = Path(__file__).with_name("KafkaTokens.java")
    limits = (str(MAX_LIFETIME_MS), str(EXPIRY_TIME_MS))
    answers = run_java(libs, str(source), SECRET, *limits, str(file), timeout_s=500).splitlines()
    assert len(answers) == len(commands)
    return [answer.split("\t") for answer in answers]


class Allowing(Unrestricted):
    """The permissions to describe some tokens, and all tokens of some owners."""

    def __init__(self, tokens: set[str], owners: tuple[str, ...]) -> None:
        self._tokens = tokens
        self._owners = owners

    def allows(
        self, operation: Operation, resource_type: ResourceType, name: str, **_logging: object
    ) -> bool:
        if resource_type is ResourceType.DELEGATION_TOKEN:
            return operation is Operation.DESCRIBE and name in self._tokens
        assert (operation, resource_type) == (Operation.DESCRIBE_TOKENS, ResourceType.USER)
        return name in self._owners


class Tokens:
    """The tokens of this package. They get the ids that Kafka gave its own."""

    def __init__(self) -> None:
        config = {
            "log.dirs": "/data",
            "delegation.token.max.lifetime.ms": str(MAX_LIFETIME_MS),
            "delegation.token.expiry.time.ms": str(EXPIRY_TIME_MS),
        }
        self.secret = TokenSecret(SECRET)
        self.next_id = b""
        self.state = ControllerState(
            image=MetadataImage(),
            static_config=BrokerConfig.single_node(config),
            new_uuid=lambda: self.next_id,
            random=random.Random(0),
        )
        self.ids: list[str] = []

    def answer(self, command: Command) -> tuple[Message | bool, list[Message]]:
        self.state.image.features["metadata.version"] = command.level
        if command.verb == "describe":
            return self._describe(command), []
        decision = self._decide(command)
        self.state.replay(decision.records)
        response = decision.response
        if isinstance(response, m.CreateDelegationTokenResponse) and not response.error_code:
            self.ids.append(response.token_id)
        return response, decision.records

    def _decide(self, command: Command) -> Decision[Any]:
        if command.verb == "sweep":
            return remove_expired_tokens(self.state, command.now_ms)
        decide = partial(
            DECISIONS[command.verb],
            self.state,
            requester=command.requester,
            secret=self.secret if command.flag else None,
            now_ms=command.now_ms,
        )
        if command.verb == "create":
            return decide(command.request)
        known = command.number >= 0 and self.ids
        token_hmac = self.secret.hmac(self._id(command.number)) if known else UNKNOWN_HMAC
        period_ms = command.period_ms
        if command.verb == "renew":
            request = m.RenewDelegationTokenRequest(hmac=token_hmac, renew_period_ms=period_ms)
            return decide(request)
        return decide(m.ExpireDelegationTokenRequest(hmac=token_hmac, expiry_time_period_ms=period_ms))

    def _describe(self, command: Command) -> m.DescribeDelegationTokenResponse:
        allowed = {self._id(number) for number in command.may_describe if self.ids}
        context = RequestContext(
            *(3, "", "127.0.0.1", command.requester, ""),
            is_forwarded=True,
            permissions=Allowing(allowed, command.may_describe_of),
        )
        parts = SimpleNamespace(
            config=self.state.static_config, image=self.state.image, token_secret=self.secret
        )
        assert isinstance(command.request, m.DescribeDelegationTokenRequest)
        return handle(cast("Parts", parts), command.request, context)

    def _id(self, number: int) -> str:
        return self.ids[-1 - number % len(self.ids)]


def test_both_decide_the_same(kafka_libs: Path, tmp_path: Path, rng: random.Random) -> None:
    commands = random_commands(rng)
    ours = Tokens()
    errors: set[tuple[str, int]] = set()
    most_described = 0
    answers = kafkas_answers(kafka_libs, tmp_path, commands)
    for command, (answer, *words) in zip(commands, answers, strict=True):
        kafkas_records = decoded(words)
        if command.verb == "create" and kafkas_records:
            [record] = kafkas_records
            assert isinstance(record, m.DelegationTokenRecord)
            ours.next_id = uuid_from_text(record.token_id)
        response, records = ours.answer(command)
        if isinstance(response, bool):
            assert str(response).lower() == answer
            assert sorted(records, key=repr) == sorted(kafkas_records, key=repr)
            continue
        version = 2 if command.verb in ("renew", "expire") else 3
        kafkas = type(response).decode(version, bytes.fromhex(answer))[0]
        if isinstance(response, m.DescribeDelegationTokenResponse):
            assert isinstance(kafkas, m.DescribeDelegationTokenResponse)
            response.tokens = sorted(response.tokens, key=lambda token: token.token_id)
            kafkas.tokens = sorted(kafkas.tokens, key=lambda token: token.token_id)
            most_described = max(most_described, len(response.tokens))
        assert response == kafkas, command
        assert records == kafkas_records, command
        errors.add((command.verb, getattr(response, "error_code", 0)))
    assert len(errors) == 4 + 6 + 6 + 1, sorted(errors)
    assert most_described > 3


def test_a_principal_in_an_envelope_has_kafkas_bytes(kafka_libs: Path, tmp_path: Path) -> None:
    commands = [
        Command("principal", 30, token_authenticated, 0, principal, -1)
        for principal in PRINCIPALS
        for token_authenticated in (False, True)
    ]
    for command, [data] in zip(commands, kafkas_answers(kafka_libs, tmp_path, commands), strict=True):
        context = RequestContext(
            *(3, "", "127.0.0.1", command.requester, ""),
            permissions=UNRESTRICTED,
            token_authenticated=command.flag,
        )
        envelope = forwarding._envelope(m.CreateDelegationTokenRequest(), context)
        assert bytes(envelope.request_principal or b"") == bytes.fromhex(data)
        assert forwarding._principal(bytes.fromhex(data)) == (command.requester, command.flag)


def decoded(words: Sequence[str]) -> list[Message]:
    """Records, each as the name of its class and its bytes."""
    pairs = zip(words[::2], words[1::2], strict=True)
    return [getattr(m, name).decode(0, bytes.fromhex(data))[0] for name, data in pairs]
