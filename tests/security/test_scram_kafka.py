"""Random changes of SCRAM credentials: the same records, results and errors as Apache Kafka's own classes."""

import base64
import os
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from kafka_node import run_java
from long_run import repetitions
from penstock.broker.api.describe_user_scram_credentials import describe
from penstock.broker.setup.add_scram import InvalidScram, scram_records
from penstock.metadata.configs import BrokerConfig
from penstock.metadata.controller.scram import alter_scram_credentials
from penstock.metadata.controller.state import ControllerState
from penstock.metadata.image import MetadataImage
from penstock.protocol import messages as m
from penstock.protocol.messages import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    Message,
    UserScramCredentialRecord,
)

pytestmark = [pytest.mark.kafka, pytest.mark.longer, pytest.mark.timeout(600)]

REQUESTS = repetitions("PENSTOCK_SCRAM_REQUESTS", gate=3_000, long=100_000)
ARGUMENTS = repetitions("PENSTOCK_SCRAM_ARGUMENTS", gate=800, long=20_000)
USERS = ("ann", "bert", "c,=d", "ädel", "")
MECHANISMS = (1, 2, 1, 2, 1, 2, 0, 3)
ITERATIONS = (4096, 4096, 8192, 16384, 4095, 16385, 0, -1)
LEVELS = (30, 30, 30, 30, 30, 11, 10)
SECRETS_OF_KAFKA = (
    "Failed to decode given saltedPassword",
    "Failed to decode given salt",
    "No equals sign found in SCRAM component",
    "Failed to find equals sign in SCRAM argument",
)
"""Messages that Kafka continues with the text, which may be a part of a password."""


@pytest.fixture
def rng() -> random.Random:
    seed = int(os.environ.get("PENSTOCK_SEED", random.randrange(2**32)))
    print(f"PENSTOCK_SEED={seed}")
    return random.Random(seed)


def kafkas_answers(libs: Path, scratch: Path, commands: Sequence[str]) -> list[list[str]]:
    file = scratch / "commands"
    file.write_text("\n".join(commands))
    source = Path(__file__).with_name("KafkaScram.java")
    answers = run_java(libs, str(source), str(file), timeout_s=500).splitlines()
    assert len(answers) == len(commands)
    return [answer.split("\t") for answer in answers]


def decoded(words: Sequence[str]) -> list[Message]:
    """Records, each as the name of its class and its bytes."""
    pairs = zip(words[::2], words[1::2], strict=True)
    return [getattr(m, name).decode(0, bytes.fromhex(data))[0] for name, data in pairs]


def test_both_alter_and_describe_the_same(kafka_libs: Path, tmp_path: Path, rng: random.Random) -> None:
    state = ControllerState(
        image=MetadataImage(),
        static_config=BrokerConfig.single_node({"log.dirs": "/data"}),
        new_uuid=lambda: bytes(16),
        random=rng,
    )
    commands: list[str] = []
    ours: list[tuple[Message, list[Message]]] = []
    for _ in range(REQUESTS):
        if rng.random() < 0.2:
            described = random_description(rng)
            commands.append(f"describe\t0\t{described.encode(0).hex()}")
            results = describe(state.image.scram, described)
            ours.append((DescribeUserScramCredentialsResponse(results=results), []))
            continue
        request, level = random_alteration(rng), rng.choice(LEVELS)
        commands.append(f"alter\t{level}\t{request.encode(0).hex()}")
        state.image.features["metadata.version"] = level
        decision = alter_scram_credentials(state, request)
        state.replay(decision.records)
        ours.append((decision.response, decision.records))
    seen: set[str | None] = set()
    for (response, records), (data, *words) in zip(
        ours, kafkas_answers(kafka_libs, tmp_path, commands), strict=True
    ):
        kafkas, kafkas_records = type(response).decode(0, bytes.fromhex(data))[0], decoded(words)
        if isinstance(response, DescribeUserScramCredentialsResponse):
            assert isinstance(kafkas, DescribeUserScramCredentialsResponse)
            assert sorted_description(response) == sorted_description(kafkas)
            continue
        assert isinstance(response, AlterUserScramCredentialsResponse)
        assert isinstance(kafkas, AlterUserScramCredentialsResponse)
        assert sorted(records, key=by_kind_and_user) == sorted(kafkas_records, key=by_kind_and_user)
        assert list(map(kind, records)) == list(map(kind, kafkas_records))
        assert in_groups(response, records) == in_groups(kafkas, kafkas_records)
        seen |= {result.error_message for result in response.results}
    assert len(seen) == 8, "success and every error"


def kind(record: Message) -> str:
    return type(record).__name__


def by_kind_and_user(record: Message) -> tuple[str, str]:
    assert isinstance(record, m.UserScramCredentialRecord | m.RemoveUserScramCredentialRecord)
    return kind(record), record.name


def in_groups(
    response: AlterUserScramCredentialsResponse, records: list[Message]
) -> list[tuple[str, list[tuple[str, int, str | None]]]]:
    """The results of deletions, upsertions and errors, as they come; Kafka's order in a group is a hash's."""
    kinds = {by_kind_and_user(record)[1]: kind(record) for record in records}
    groups: list[tuple[str, list[tuple[str, int, str | None]]]] = []
    for result in response.results:
        group = kinds.get(result.user, "error")
        if not groups or groups[-1][0] != group:
            groups.append((group, []))
        groups[-1][1].append((result.user, result.error_code, result.error_message))
    return [(group, sorted(results, key=lambda result: result[0])) for group, results in groups]


def sorted_description(response: DescribeUserScramCredentialsResponse) -> list[object]:
    """The results by user; the order in Kafka's responses is a hash's."""
    return [
        (
            *(result.user, result.error_code, result.error_message),
            sorted((info.mechanism, info.iterations) for info in result.credential_infos),
        )
        for result in sorted(response.results, key=lambda result: result.user)
    ]


def random_alteration(rng: random.Random) -> AlterUserScramCredentialsRequest:
    return AlterUserScramCredentialsRequest(
        deletions=[
            AlterUserScramCredentialsRequest.ScramCredentialDeletion(
                name=rng.choice(USERS), mechanism=rng.choice(MECHANISMS)
            )
            for _ in range(rng.choice((0, 0, 1, 1, 2)))
        ],
        upsertions=[
            AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
                name=rng.choice(USERS),
                mechanism=rng.choice(MECHANISMS),
                iterations=rng.choice(ITERATIONS),
                salt=rng.randbytes(rng.randrange(40)),
                salted_password=rng.randbytes(rng.randint(1, 150)),
            )
            for _ in range(rng.choice((0, 1, 1, 2, 3)))
        ],
    )


def random_description(rng: random.Random) -> DescribeUserScramCredentialsRequest:
    if rng.random() < 0.2:
        return DescribeUserScramCredentialsRequest(users=rng.choice((None, [])))
    users = rng.choices(USERS, k=rng.randint(1, 4))
    return DescribeUserScramCredentialsRequest(
        users=[DescribeUserScramCredentialsRequest.UserName(name=user) for user in users]
    )


def test_both_read_the_same_arguments(kafka_libs: Path, tmp_path: Path, rng: random.Random) -> None:
    texts = [random_argument(rng) for _ in range(ARGUMENTS)]
    answers = kafkas_answers(kafka_libs, tmp_path, [f"parse\t0\t{text.encode().hex()}" for text in texts])
    parsed = 0
    messages = set()
    for text, (outcome, *words) in zip(texts, answers, strict=True):
        ours = record_or_refusal(text)
        if isinstance(ours, str):
            assert (outcome, message_of(words)) == ("refused", ours), text
            messages.add(ours.split(":")[0])
        else:
            assert outcome == "parsed", (text, words)
            [theirs] = decoded(words)
            assert isinstance(theirs, UserScramCredentialRecord)
            if "salt=" not in text:
                assert ours.salt != theirs.salt, "both are random"
                ours.salt, ours.stored_key, ours.server_key = (
                    theirs.salt,
                    theirs.stored_key,
                    theirs.server_key,
                )
            assert ours == theirs, text
            parsed += 1
    assert parsed > ARGUMENTS / 10
    assert len(messages) > 14


def record_or_refusal(text: str) -> UserScramCredentialRecord | str:
    try:
        [record] = scram_records([text])
    except InvalidScram as error:
        return str(error)
    return record


def message_of(words: list[str]) -> str:
    """Kafka's message, without what may be secret; it has none of its own for an empty password."""
    [message] = words
    if message == "Empty key":
        return "The password must not be empty"
    return next((secret for secret in SECRETS_OF_KAFKA if message.startswith(secret)), message)


def random_argument(rng: random.Random) -> str:
    def encoded() -> str:
        text = base64.b64encode(rng.randbytes(rng.randrange(12))).decode()
        return rng.choice(
            (text, text, text, text.rstrip("="), text[:-1], text + "=", f'"{text}"', f"-{text}")
        )

    values = {
        "name": lambda: rng.choice(("ann", '"bert"', "", '"', "a=b")),
        "password": lambda: rng.choice(("secret", "Pä ss", '"quoted"', "", "a=b")),
        "iterations": lambda: rng.choice(
            ("4096", "+5000", "04097", "16384", "4095", "16385", "x", "", "-1", "٤٠٩٦", "4_096", "2147483648")
        ),
        "salt": encoded,
        "saltedpassword": encoded,
        "other": lambda: "1",
    }
    chances = {"name": 0.95, "password": 0.6, "iterations": 0.3, "salt": 0.5, "saltedpassword": 0.4}
    names = [name for name in values if rng.random() < chances.get(name, 0.02)]
    rng.shuffle(names)
    components = [f"{name}={values[name]()}" for name in names]
    components += rng.choices(("", "name", "name=late"), k=rng.random() < 0.05)
    mechanism = rng.choices(("SCRAM-SHA-256", "SCRAM-SHA-512", "SCRAM-SHA-1"), (10, 10, 1))[0]
    text = f"{mechanism}=[{','.join(components)}]"
    return rng.choices(
        (text, f" {text}\n", text[:-1], text.replace("[", ""), text.replace("=", "")), (90, 4, 2, 2, 2)
    )[0]
