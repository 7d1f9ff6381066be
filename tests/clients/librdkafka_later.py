"""librdkafka's tests that need a capability Penstock lacks, and their subtests that must pass already.

A test with several subtests stops at the first failure, so each subtest named here runs separately (the
suite's SUBTESTS selects those whose title contains the text).
"""

from typing import NamedTuple


class Later(NamedTuple):
    """The reason why a test cannot pass yet, and its subtests that don't need the missing capability."""

    reason: str
    subtests: tuple[str, ...] = ()


ACLS = "needs a node with an authorizer"
SHARE_GROUPS = "share groups (KIP-932)"

LATER: dict[str, Later] = {
    "0081": Later(
        # do_test_DescribeConsumerGroups is not listed: it fails on Apache Kafka 4.3.1 too.
        f"{ACLS}, and users of SCRAM",
        (
            "do_test_unclean_destroy",
            "do_test_CreateTopics",
            "do_test_DeleteTopics",
            "do_test_CreatePartitions",
            "do_test_AlterConfigs",
            "do_test_IncrementalAlterConfigs",
            "do_test_DescribeConfigs",
            "do_test_DeleteRecords",
            "do_test_ListConsumerGroups",
            "do_test_DescribeTopics",
            "do_test_DescribeCluster",
            "do_test_DeleteGroups",
            "do_test_DeleteConsumerGroupOffsets",
            "do_test_AlterConsumerGroupOffsets",
            "do_test_ListConsumerGroupOffsets",
            "do_test_ListOffsets",
        ),
    ),
    "0109": Later(ACLS),
    "0115": Later(ACLS),
    "0119": Later(ACLS),
    **{f"{number:04}": Later(SHARE_GROUPS) for number in range(170, 191)},
}

NEEDS_SEVERAL = {"0101": "asks for three replicas"}

# Errors that these tests print although they pass.
SAID_ONLY = {
    "0101": (
        "expecting three replicas",
        "message consumed out of order",
        "rxbytes was not highest on broker corresponding to client.rack",
        "expecting rxbytes of client.rack broker to be at least",
    ),
}
