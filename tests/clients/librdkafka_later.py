"""librdkafka's tests of which not all can pass, and their subtests that must pass already.

A test with several subtests stops at the first failure, so each subtest named here runs separately (the
suite's SUBTESTS selects those whose title contains the text).
"""

from typing import NamedTuple


class Later(NamedTuple):
    """The reason why a test cannot pass as a whole, and its subtests that pass nevertheless.

    `is_of_kafka` says that Apache Kafka cannot pass it either.
    """

    reason: str
    subtests: tuple[str, ...] = ()
    is_of_kafka: bool = False


SHARE_GROUPS = "share groups (KIP-932)"

LATER: dict[str, Later] = {
    "0081": Later(
        "all but do_test_DescribeConsumerGroups, which fails on Apache Kafka 4.3.1 as well",
        (
            "do_test_unclean_destroy",
            "do_test_CreateTopics",
            "do_test_DeleteTopics",
            "do_test_CreatePartitions",
            "do_test_CreateAcls",
            "do_test_DescribeAcls",
            "do_test_DeleteAcls",
            "do_test_AlterConfigs",
            "do_test_IncrementalAlterConfigs",
            "do_test_DescribeConfigs",
            "do_test_DeleteRecords",
            "do_test_ListConsumerGroups",
            "do_test_DescribeTopics",
            "do_test_DescribeCluster",
            "do_test_DescribeConsumerGroups_with_authorized_ops",
            "do_test_DeleteGroups",
            "do_test_DeleteConsumerGroupOffsets",
            "do_test_AlterConsumerGroupOffsets",
            "do_test_ListConsumerGroupOffsets",
            "do_test_ListOffsets",
            "do_test_UserScramCredentials",
        ),
        is_of_kafka=True,
    ),
    "0126": Later(
        SHARE_GROUPS,
        (
            "do_test_produce_consumer_with_OIDC:",
            "do_test_produce_consumer_with_OIDC_should_fail:",
            "do_test_produce_consumer_with_OIDC_should_fail_invalid_token_endpoint:",
            "do_test_produce_consumer_with_OIDC_expired_token_should_fail:",
            "do_test_produce_share_consumer_with_OIDC_should_fail:",
            "do_test_produce_share_consumer_with_OIDC_should_fail_invalid_token_endpoint:",
            "do_test_produce_share_consumer_with_OIDC_expired_token_should_fail:",
            "do_test_OIDC_aws_iam_conf_roundtrip:",
            "do_test_OIDC_aws_iam_stub_fires_without_callback:",
            "do_test_OIDC_aws_iam_user_callback_wins:",
        ),
    ),
    "0135": Later(SHARE_GROUPS, ("do_test:",)),
    "0142": Later(
        SHARE_GROUPS,
        ("do_test_consumer:", "do_test_producer:", "do_test_txn_producer:", "do_test_reauth_failure:"),
    ),
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
