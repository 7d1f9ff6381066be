"""Random clients get the same answers from Penstock and from Apache Kafka, whatever ACLs there are.

Each round begins at both nodes with the same topics, groups, transactional ids and random ACLs. A difference
is reported with its place, seed/round/request, where the same seed sends the same request again.

PENSTOCK_SECURED_REQUESTS sets the number of requests, and PENSTOCK_SEED the seed, which the test prints.
"""

import os
import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

import pytest
from random_nodes import CLOSED, SETTINGS, Pair, Side
from random_requests import OTHER_NODE, Draw, Plan

from penstock.broker import api_table
from penstock.broker.api_table import ListenerType
from penstock.protocol.api_keys import ApiKey
from several_nodes import SeveralNodes, kafka_nodes, penstock_nodes

REQUESTS: Final = int(os.environ.get("PENSTOCK_SECURED_REQUESTS", "4000"))
REQUESTS_PER_ROUND: Final = 100
SEED: Final = os.environ.get("PENSTOCK_SEED", "")
pytestmark = [pytest.mark.kafka, pytest.mark.long, pytest.mark.timeout(300 + REQUESTS)]

ANY_ERROR: Final = re.compile(r"\b[A-Z]+(_[A-Z]+)+\b")
"""An error code, except NONE."""

FAULTS: Final = re.compile("INVALID_CONFIG|INVALID_REQUEST|UNKNOWN_TOPIC_OR_PARTITION")

TRANSACTION_REFUSED: Final = re.compile("INVALID_TXN_STATE|TRANSACTION_ABORTABLE")

NOT_ASKED: Final = frozenset({ApiKey.API_VERSIONS, ApiKey.SASL_AUTHENTICATE})
"""Nodes announce their own APIs and features, and the conversations of tests/clients log in."""


def names_follower_and_no_topics(plan: Plan) -> bool:
    return not plan.fields["topics"] and f"'replica_id': {OTHER_NODE}" in str(plan.fields)


def words(answer: str) -> list[str]:
    return sorted(re.split(r"[\[\], ]+", answer))


class Known(NamedTuple):
    """A difference that is meant, and the reason for it."""

    reason: str
    apis: frozenset[ApiKey]
    """The APIs that have it; empty for all."""
    is_it: Callable[[Plan, str, str], bool]
    """Whether it explains the answers of Penstock and of Kafka."""


KNOWN: Final = (
    Known(
        "Kafka closes the connection of a client that names an unknown type in an ACL or a filter; "
        "Penstock answers INVALID_REQUEST, or that the client may not ask.",
        frozenset({ApiKey.DESCRIBE_ACLS, ApiKey.CREATE_ACLS, ApiKey.DELETE_ACLS}),
        lambda _plan, ours, theirs: theirs == CLOSED and bool(ANY_ERROR.search(ours)),
    ),
    Known(
        "Kafka's controllers announce these APIs and fail, because they have no handler for them.",
        frozenset({ApiKey.DESCRIBE_DELEGATION_TOKEN, ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS}),
        lambda plan, _ours, theirs: (
            plan.who.listener == ListenerType.CONTROLLER.value and "UNKNOWN_SERVER_ERROR" in theirs
        ),
    ),
    Known(
        "Kafka fails where Penstock names the error: empty and null names, and invalid ones in "
        "DescribeTopicPartitions.",
        frozenset(),
        lambda _plan, ours, theirs: "UNKNOWN_SERVER_ERROR" in theirs and bool(ANY_ERROR.search(ours)),
    ),
    Known(
        "Penstock refuses a client that poses as a follower before it looks at the fetch session.",
        frozenset({ApiKey.FETCH}),
        lambda plan, ours, theirs: (
            theirs.startswith("FETCH_SESSION")
            and ("TOPIC_AUTHORIZATION_FAILED" in ours or names_follower_and_no_topics(plan))
        ),
    ),
    Known(
        "In Kafka, a topic appears once more if an error of one partition is found after those of others.",
        frozenset({ApiKey.FETCH}),
        lambda _plan, ours, theirs: set(words(ours)) == set(words(theirs)),
    ),
    Known(
        "Penstock names the leader to a follower that does not belong to the partition.",
        frozenset({ApiKey.FETCH}),
        lambda _plan, ours, theirs: ours.replace("leader_id=1", "") == theirs,
    ),
    Known(
        "A controller that is asked directly checks the configs of a broker here, and not in Kafka.",
        frozenset({ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS}),
        lambda plan, ours, _theirs: (
            plan.who.listener == ListenerType.CONTROLLER.value and "INVALID_REQUEST resource_type=4" in ours
        ),
    ),
    Known(
        "Penstock refuses invalid acks before it asks the coordinator about the transaction.",
        frozenset({ApiKey.PRODUCE}),
        lambda _plan, ours, theirs: (
            "INVALID_REQUIRED_ACKS" in ours and bool(TRANSACTION_REFUSED.search(theirs))
        ),
    ),
    Known(
        "A controller that is asked directly takes a null value for a deletion in Kafka, here for a mistake.",
        frozenset({ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS}),
        lambda plan, ours, _theirs: (
            plan.who.listener == ListenerType.CONTROLLER.value
            and "INVALID_REQUEST" in ours
            and "'value': None" in str(plan.fields)
        ),
    ),
    Known(
        "Of several faults in the configs of one resource, each reports another one; "
        "Kafka checks the configs of a topic before it finds that there is none.",
        frozenset({ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS}),
        lambda _plan, ours, theirs: words(FAULTS.sub("fault", ours)) == words(FAULTS.sub("fault", theirs)),
    ),
)


@pytest.mark.parametrize("without_acls", ["denied", "allowed"])
def test_answers_and_what_is_hidden_are_kafkas(without_acls: str, kafka_libs: Path, tmp_path: Path) -> None:
    seed = SEED or str(random.randrange(2**32))
    print(f"PENSTOCK_SEED={seed}")
    settings = SETTINGS | {"allow.everyone.if.no.acl.found": str(without_acls == "allowed").lower()}
    only_classic = {"group.coordinator.rebalance.protocols": "classic"}
    with (
        penstock_nodes(tmp_path / "penstock", 1, config=settings) as penstock,
        kafka_nodes(kafka_libs, tmp_path / "kafka", 1, config=settings | only_classic) as kafka,
        closing(Pair(side_of(penstock), side_of(kafka))) as pair,
    ):
        found: Counter[str] = Counter()
        differences = list(differences_of(pair, f"{seed}-{without_acls}", found))
    print("\n".join(f"{count:6} known: {reason}" for reason, count in found.items()))
    assert not differences, f"{len(differences)} differences\n" + "\n".join(differences)


def side_of(nodes: SeveralNodes) -> Side:
    return Side(nodes.bootstrap_servers, nodes.controllers[1])


def differences_of(pair: Pair, seed: str, found: Counter[str]) -> Iterator[str]:
    """Ask both, and count the known differences in ``found``."""
    served = {
        listener.value: [
            (key, range(api_table.apis()[key].versions[0], api_table.apis()[key].versions[1] + 1))
            for key in api_table.served_by(listener)
            if key not in NOT_ASKED
        ]
        for listener in ListenerType
    }
    for number in range(-(-REQUESTS // REQUESTS_PER_ROUND)):
        draw = Draw(f"{seed}/{number}")
        pair.reset(draw.acls())
        for at in range(REQUESTS_PER_ROUND):
            plan = draw.plan(served)
            ours, theirs = pair.ask(plan)
            known = next((each for each in KNOWN if explains(each, plan, ours, theirs)), None)
            if ours != theirs and known is not None:
                found[known.reason] += 1
            elif ours != theirs:
                yield f"{seed}/{number}/{at} {plan}\n  Penstock: {ours}\n  Kafka:    {theirs}"
            if states := pair.different_states(plan):
                if ours == theirs or known is None:
                    yield f"{seed}/{number}/{at} {plan}\n  " + "\n  ".join(states)
                break


def explains(known: Known, plan: Plan, ours: str, theirs: str) -> bool:
    return (not known.apis or plan.key in known.apis) and known.is_it(plan, ours, theirs)
