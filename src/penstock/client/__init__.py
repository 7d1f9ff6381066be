"""A small synchronous Kafka client, for everything of ours that reads and writes topics.

It depends on `penstock.protocol`, and on `penstock.security` for ACLs. It moves whole record batches and
makes no object per record, except in `consuming`.
Each module wraps one group of Kafka's APIs; code for one particular server or command does not belong here.

    connections   a cluster: connections to leaders and coordinators, metadata, retries
    security      TLS and SASL
    groups        consumer groups: committed offsets, members, membership
    admin         topics, configs, ACLs, replicas, the quorum, transactions
    reading       offsets, ranges of partitions, partitions that grow
    producing     producers and transactions
    consuming     members of consumer groups, which read their share of topics record by record

`config`, `settings`, `errors` and `batches` serve all of them. The package exports the exceptions, which
also reach users of `penstock.read`, of Spark and of streams. It exports no names of its rooms, because every
import of `settings` would then also load TLS and the codecs of all requests, which takes far longer than the
commands that need only settings.
"""

from penstock.client.errors import (
    AuthenticationFailed,
    ClientError,
    DeliveryFailed,
    GroupInUse,
    NothingListens,
    OffsetOutOfRange,
    ProtocolViolation,
    RecordTooLarge,
    RequestTimedOut,
    ServerError,
    ServerUnreachable,
    TransactionLost,
    UnknownPartition,
    UnsupportedByServer,
)
from penstock.client.settings import ConfigError

__all__ = [
    "AuthenticationFailed",
    "ClientError",
    "ConfigError",
    "DeliveryFailed",
    "GroupInUse",
    "NothingListens",
    "OffsetOutOfRange",
    "ProtocolViolation",
    "RecordTooLarge",
    "RequestTimedOut",
    "ServerError",
    "ServerUnreachable",
    "TransactionLost",
    "UnknownPartition",
    "UnsupportedByServer",
]
