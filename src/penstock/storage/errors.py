"""The exceptions of storage; each LogError carries the Kafka error code of the response to the client."""

from __future__ import annotations

from typing import ClassVar

from penstock.protocol.errors import ErrorCode, KafkaError


class LogError(KafkaError):
    """Base of the errors of this package."""

    error_code: ClassVar[ErrorCode] = ErrorCode.UNKNOWN_SERVER_ERROR

    def __init__(self, message: str) -> None:
        super().__init__(self.error_code, message)


class StorageFailed(LogError):
    """A write, sync or read failed; no part of the request was appended."""

    error_code = ErrorCode.KAFKA_STORAGE_ERROR


class CorruptLog(LogError):
    """Bytes on the disk differ from what was written; the message names partition, offset and file."""

    error_code = ErrorCode.CORRUPT_MESSAGE


class OffsetOutOfRange(LogError):
    error_code = ErrorCode.OFFSET_OUT_OF_RANGE


class UnexpectedOffset(LogError):
    """A leader's batch begins below the follower's end offset.

    `first_offset` and `last_offset` are those of all batches that were to be appended.
    """

    def __init__(self, message: str, first_offset: int, last_offset: int) -> None:
        super().__init__(message)
        self.first_offset = first_offset
        self.last_offset = last_offset


class MessageTooLarge(LogError):
    """A batch is larger than `max.message.bytes`."""

    error_code = ErrorCode.MESSAGE_TOO_LARGE


class RecordListTooLarge(LogError):
    """A request is larger than `segment.bytes`."""

    error_code = ErrorCode.RECORD_LIST_TOO_LARGE


class OutOfOrderSequence(LogError):
    error_code = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


class InvalidProducerEpoch(LogError):
    error_code = ErrorCode.INVALID_PRODUCER_EPOCH


class InvalidTransactionState(LogError):
    error_code = ErrorCode.INVALID_TXN_STATE


class TransactionCoordinatorFenced(LogError):
    error_code = ErrorCode.TRANSACTION_COORDINATOR_FENCED


class InconsistentTopicId(LogError):
    """A directory holds the log of another topic of the same name."""

    error_code = ErrorCode.INCONSISTENT_TOPIC_ID


class LogDirectoryError(Exception):
    """A log directory cannot be used: it is locked, another node's or not Kafka's.

    The message says what the operator must do.
    """


class LogDirectoryOffline(LogDirectoryError):
    """The disk under a log directory cannot be read or written; the node may continue without it."""


class CleaningAborted(Exception):
    """The log is being truncated, deleted or closed, or its config changed: discard what was cleaned."""
