"""Random ACLs, changes and requests: the same decisions, rules and records as Apache Kafka's own classes."""

import logging
import os
import random
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from kafka_node import java_command
from long_run import repetitions
from penstock.metadata.configs import BrokerConfig
from penstock.metadata.controller.acls import create_acls, delete_acls
from penstock.metadata.controller.state import ControllerState, Decision
from penstock.metadata.image import MetadataImage
from penstock.protocol.messages import CreateAclsRequest, DeleteAclsRequest, DeleteAclsResponse
from penstock.security.acls import Acl, Operation, PatternType, PermissionType, ResourceType
from penstock.security.authorizer import Authorizer
from penstock.security.permissions import TRACE, Granted, audit

pytestmark = [pytest.mark.kafka, pytest.mark.longer, pytest.mark.timeout(600)]

DECISIONS = repetitions("PENSTOCK_DECISIONS", gate=6_000, long=200_000)
SUPER_USERS = "User:root;User:broker"
REQUESTERS = ("User:ann", "User:bert", "Group:ann", "User:root", "User:CN=a,O=b:c")
PRINCIPALS = ("User:*", *REQUESTERS)
HOSTS = ("10.0.0.1", "10.0.0.2", "0:0:0:0:0:0:0:1")
REQUEST_HOSTS = ("10.0.0.1", "10.0.0.2", "::1", "::ffff:10.0.0.1", "fe80::a0")
OPERATIONS = [operation for operation in Operation if operation > Operation.ALL]
TYPES = [kind for kind in ResourceType if kind > ResourceType.ANY]


class Script:
    """Random commands, and what Penstock answers to each in the words of `KafkaAuthorizer.java`."""

    def __init__(self, seed: int, answers: list[str], *, allows_without_acl: bool) -> None:
        self.rng = random.Random(seed)
        self.state = ControllerState(
            image=MetadataImage(),
            static_config=BrokerConfig.single_node({"log.dirs": "/data"}),
            new_uuid=lambda: self.rng.randbytes(16),
            random=self.rng,
        )
        self.authorizer = Authorizer(SUPER_USERS.split(";"), allows_without_acl=allows_without_acl)
        self.authorizer.loaded()
        self.commands: list[str] = []
        self.answers = answers
        """The answers to commands that change or list, among the lines of the audit log."""

    def step(self) -> None:
        act = self.rng.choices((self.create, self.delete, self.ask, self.ask_for_some), (8, 2, 85, 5))[0]
        act()

    def name(self) -> str:
        """A short name of few letters, so that many are prefixes of others."""
        if self.rng.random() < 0.08:
            return "*"
        return "".join(self.rng.choices("ab", k=self.rng.randint(1, 4)))

    def create(self) -> None:
        creations = [self.creation() for _ in range(self.rng.randint(1, 4))]
        creations += self.rng.choices(creations, k=self.rng.random() < 0.2)
        request = CreateAclsRequest(creations=creations)
        decision = create_acls(self.state, request)
        self.commands.append(f"create\t{request.encode(3).hex()}")
        results = ",".join(
            f"{result.error_code} {result.error_message}" if result.error_code else "0"
            for result in decision.response.results
        )
        self.answers.append(f"create {results} records {len(decision.records)}")
        self.commit(decision)

    def creation(self) -> CreateAclsRequest.AclCreation:
        rng = self.rng
        kind = rng.choice(TYPES)
        return CreateAclsRequest.AclCreation(
            resource_type=kind,
            resource_name="kafka-cluster" if kind is ResourceType.CLUSTER else self.name(),
            resource_pattern_type=rng.choice((PatternType.LITERAL, PatternType.PREFIXED)),
            principal=rng.choice(PRINCIPALS) if rng.random() < 0.98 else "ann",
            host=rng.choice(("*", *HOSTS)),
            operation=rng.choice((Operation.ALL, *OPERATIONS)),
            permission_type=rng.choices((PermissionType.ALLOW, PermissionType.DENY), (3, 1))[0],
        )

    def delete(self) -> None:
        rng = self.rng
        filters = [
            DeleteAclsRequest.DeleteAclsFilter(
                resource_type_filter=rng.choice((ResourceType.ANY, *TYPES)),
                resource_name_filter=rng.choice((None, self.name(), self.name())),
                pattern_type_filter=rng.choice([each for each in PatternType if each]),
                principal_filter=rng.choice((None, *PRINCIPALS)),
                host_filter=rng.choice((None, "*", *HOSTS)),
                operation=rng.choice((Operation.ANY, Operation.ALL, *OPERATIONS)),
                permission_type=rng.choice([each for each in PermissionType if each]),
            )
            for _ in range(rng.randint(1, 3))
        ]
        request = DeleteAclsRequest(filters=filters)
        decision = delete_acls(self.state, request)
        self.commands.append(f"delete\t{request.encode(3).hex()}")
        matching = "|".join(
            ";".join(sorted(str(acl_of(each)) for each in result.matching_acls))
            for result in decision.response.filter_results
        )
        self.answers.append(f"delete {matching} records {len(decision.records)}")
        self.commit(decision)

    def commit(self, decision: Decision[object]) -> None:
        self.state.replay(decision.records)
        acls = self.state.image.acls.by_id
        for acl_id in self.authorizer.ids - acls.keys():
            self.authorizer.put(acl_id, None)
        for acl_id in acls.keys() - self.authorizer.ids:
            self.authorizer.put(acl_id, acls[acl_id])

    def ask(self) -> None:
        rng = self.rng
        principal, host = rng.choice(REQUESTERS), rng.choice(REQUEST_HOSTS)
        operation, kind = rng.choice(OPERATIONS), rng.choice(TYPES)
        name = "kafka-cluster" if kind is ResourceType.CLUSTER else self.name()
        self.commands.append(f"ask\t{principal}\t{host}\t{int(operation)}\t{int(kind)}\t{name}")
        Granted(self.authorizer, principal, host, "ListOffsets").allows(operation, kind, name)

    def ask_for_some(self) -> None:
        rng = self.rng
        principal, host = rng.choice(REQUESTERS), rng.choice(REQUEST_HOSTS)
        operation, kind = rng.choice(OPERATIONS), rng.choice(TYPES)
        self.commands.append(f"some\t{principal}\t{host}\t{int(operation)}\t{int(kind)}")
        allowed = Granted(self.authorizer, principal, host, "ListOffsets").allows_some(operation, kind)
        self.answers.append(f"some {str(allowed).lower()}")


def acl_of(found: DeleteAclsResponse.DeleteAclsMatchingAcl) -> Acl:
    return Acl(
        ResourceType(found.resource_type),
        found.resource_name,
        PatternType(found.pattern_type),
        found.principal,
        found.host,
        Operation(found.operation),
        PermissionType(found.permission_type),
    )


@pytest.fixture
def audited() -> Iterator[list[str]]:
    """The lines of the audit log, with all levels on."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    level = audit.level
    audit.addHandler(handler)
    audit.setLevel(TRACE)
    audit.propagate = False
    yield lines
    audit.setLevel(level)
    audit.propagate = True
    audit.removeHandler(handler)


@pytest.mark.parametrize("allows_without_acl", [False, True])
def test_both_decide_the_same(
    allows_without_acl: bool, kafka_libs: Path, tmp_path: Path, audited: list[str]
) -> None:
    seed = int(os.environ.get("PENSTOCK_SEED", random.randrange(2**32)))
    print(f"PENSTOCK_SEED={seed}")
    script = Script(seed, audited, allows_without_acl=allows_without_acl)
    for _ in range(DECISIONS):
        script.step()
    file = tmp_path / "commands"
    file.write_text("\n".join(script.commands))
    theirs = kafkas_answers(kafka_libs, str(allows_without_acl).lower(), file)
    for number, (their, ours) in enumerate(zip(theirs, audited, strict=False)):
        assert ours == their, f"answer {number}"
    assert len(theirs) == len(audited)
    told = "".join(theirs)
    for rule in ("SuperUser", "MatchingAcl", "DefaultAllow" if allows_without_acl else "DefaultDeny"):
        assert f"based on rule {rule}" in told


def kafkas_answers(libs: Path, allows_without_acl: str, file: Path) -> list[str]:
    source = Path(__file__).with_name("KafkaAuthorizer.java")
    logger = "org.slf4j.simpleLogger"
    command = java_command(
        libs,
        str(source),
        f"-D{logger}.log.kafka.authorizer.logger=trace",
        f"-D{logger}.logFile=System.out",
        f"-D{logger}.showThreadName=false",
        f"-D{logger}.showLogName=false",
    )
    done = subprocess.run(
        [*command, SUPER_USERS, allows_without_acl, file],
        capture_output=True,
        text=True,
        timeout=500,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return [re.sub("^(INFO|DEBUG|TRACE) ", "", line) for line in done.stdout.splitlines()]
