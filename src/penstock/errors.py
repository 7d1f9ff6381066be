"""The exceptions that users of Penstock can catch, with the packages that export them.

    PenstockError                           penstock
      CannotShip (RuntimeError)             penstock.spark
      CheckpointError                       penstock.spark
      ClientError                           penstock.client
        AuthenticationFailed                penstock.client
        CheckpointOutdated                  penstock.spark
        DataLoss                            penstock
        DeliveryFailed                      penstock.client
        GroupInUse                          penstock.client
        MarkerDamaged                       penstock.spark
        MarkerMismatch                      penstock.spark
        MarkerMissing                       penstock.spark
        ProtocolViolation                   penstock.client
        RecordTooLarge                      penstock.client
        RegistryError                       penstock.registry.client
          RegistryRefused                   penstock.registry.client
          RegistryUnreachable               penstock.registry.client
        RunFenced                           penstock.spark
        ServerError                         penstock.client
          OffsetOutOfRange                  penstock.client
          TransactionLost                   penstock.client
          UnknownPartition                  penstock.client
        ServerUnreachable                   penstock.client
          NothingListens                    penstock.client
          RequestTimedOut                   penstock.client
        TopicReplaced                       penstock.spark
        UnsupportedByServer                 penstock.client
      ClusterError (RuntimeError)           penstock.testing
      ConfigError (ValueError)              penstock.client
      ConnectError                          penstock.connect
        ChangesLost                         penstock.connect
        ConfigInvalid (ValueError)          penstock.connect
        DataError (ValueError)              penstock.connect
        ReplicationProtocolError            penstock.connect
        RetriableError                      penstock.connect
      CorruptBatch (ValueError)             penstock
      FormatError (ValueError)              penstock.sql
      JavaNotFound (RuntimeError)           penstock.spark
      KafkaError                            penstock.protocol.errors
      MalformedRecords (ValueError)         penstock
      MetricsPortTaken (OSError)            penstock.spark.observing
      MissingExtra (ImportError)            penstock
      SqlError (ValueError)                 penstock.sql
      StreamsError                          penstock.streams
        ApplicationFailed                   penstock.streams
        BufferFull                          penstock.streams
        CheckpointMismatch                  penstock.streams
          CheckpointOfAnother               penstock.streams
        InternalTopicMismatch               penstock.streams
        InvalidRecord (ValueError)          penstock.streams
        MissingTopics                       penstock.streams
        NeedsRunningApp                     penstock.streams
        RecordFailed                        penstock.streams
        SerdeError (ValueError)             penstock.streams
        TopologyError                       penstock.streams
          CoPartitioningError               penstock.streams
        ViewError                           penstock.views
          InvalidQuery                      penstock.views
          KeyNotFound                       penstock.views
          NoHolder                          penstock.views
          NotPresent                        penstock.views
          PositionNotReached                penstock.views
          StoreNotQueryable                 penstock.views
          StoreRestoring                    penstock.views
          UnknownStore                      penstock.views
          UnsupportedQuery                  penstock.views
          ViewsClosed                       penstock.views
      UndecodableRecord (ValueError)        penstock
      UserFunctionError (ValueError)        penstock.sql

Each name can also be imported from here. Brackets show which of Python's own exceptions a class extends too.
Packages also raise exceptions that extend those above and are not exported; catch them by the ones above.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

PACKAGES: Final = {
    "ApplicationFailed": "penstock.streams",
    "AuthenticationFailed": "penstock.client",
    "BufferFull": "penstock.streams",
    "CannotShip": "penstock.spark",
    "ChangesLost": "penstock.connect",
    "CheckpointError": "penstock.spark",
    "CheckpointMismatch": "penstock.streams",
    "CheckpointOfAnother": "penstock.streams",
    "CheckpointOutdated": "penstock.spark",
    "ClientError": "penstock.client",
    "ClusterError": "penstock.testing",
    "CoPartitioningError": "penstock.streams",
    "ConfigError": "penstock.client",
    "ConfigInvalid": "penstock.connect",
    "ConnectError": "penstock.connect",
    "CorruptBatch": "penstock",
    "DataError": "penstock.connect",
    "DataLoss": "penstock",
    "DeliveryFailed": "penstock.client",
    "FormatError": "penstock.sql",
    "GroupInUse": "penstock.client",
    "InternalTopicMismatch": "penstock.streams",
    "InvalidQuery": "penstock.views",
    "InvalidRecord": "penstock.streams",
    "JavaNotFound": "penstock.spark",
    "KafkaError": "penstock.protocol.errors",
    "KeyNotFound": "penstock.views",
    "MalformedRecords": "penstock",
    "MarkerDamaged": "penstock.spark",
    "MarkerMismatch": "penstock.spark",
    "MarkerMissing": "penstock.spark",
    "MetricsPortTaken": "penstock.spark.observing",
    "MissingExtra": "penstock",
    "MissingTopics": "penstock.streams",
    "NeedsRunningApp": "penstock.streams",
    "NoHolder": "penstock.views",
    "NotPresent": "penstock.views",
    "NothingListens": "penstock.client",
    "OffsetOutOfRange": "penstock.client",
    "PenstockError": "penstock",
    "PositionNotReached": "penstock.views",
    "ProtocolViolation": "penstock.client",
    "RecordFailed": "penstock.streams",
    "RecordTooLarge": "penstock.client",
    "RegistryError": "penstock.registry.client",
    "RegistryRefused": "penstock.registry.client",
    "RegistryUnreachable": "penstock.registry.client",
    "ReplicationProtocolError": "penstock.connect",
    "RequestTimedOut": "penstock.client",
    "RetriableError": "penstock.connect",
    "RunFenced": "penstock.spark",
    "SerdeError": "penstock.streams",
    "ServerError": "penstock.client",
    "ServerUnreachable": "penstock.client",
    "SqlError": "penstock.sql",
    "StoreNotQueryable": "penstock.views",
    "StoreRestoring": "penstock.views",
    "StreamsError": "penstock.streams",
    "TopicReplaced": "penstock.spark",
    "TopologyError": "penstock.streams",
    "TransactionLost": "penstock.client",
    "UndecodableRecord": "penstock",
    "UnknownPartition": "penstock.client",
    "UnknownStore": "penstock.views",
    "UnsupportedByServer": "penstock.client",
    "UnsupportedQuery": "penstock.views",
    "UserFunctionError": "penstock.sql",
    "ViewError": "penstock.views",
    "ViewsClosed": "penstock.views",
}
"""The package that exports each exception."""


class PenstockError(Exception):
    """The base class of all exceptions that Penstock raises for its users."""


def __getattr__(name: str) -> type[PenstockError]:
    """Import an exception from its package on first use.

    All packages import this module for `PenstockError`, so it can import none of them at its beginning.
    """
    if name not in PACKAGES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: type[PenstockError] = getattr(import_module(PACKAGES[name]), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *PACKAGES})
