"""Error codes, compared with those of the target release."""

from __future__ import annotations

from kafka_facts import facts

from penstock.protocol.errors import ErrorCode, KafkaError


def test_codes_are_those_of_the_target_release() -> None:
    ours = {(code.name, int(code), code.retriable) for code in ErrorCode}
    assert ours == {(name, int(code), retry == "retriable") for code, name, retry in facts("error")}


def test_every_code_has_a_message_of_its_own() -> None:
    assert len({code.default_message for code in ErrorCode}) == len(ErrorCode)


def test_kafka_error() -> None:
    error = KafkaError(ErrorCode.INVALID_CONFIG, "retention.ms must be a number")
    assert (error.code, error.message) == (ErrorCode.INVALID_CONFIG, "retention.ms must be a number")
    assert str(error) == "INVALID_CONFIG: retention.ms must be a number"
    assert KafkaError(ErrorCode.NOT_COORDINATOR).message == ErrorCode.NOT_COORDINATOR.default_message


def test_codes_of_later_releases() -> None:
    assert ErrorCode(9999) is ErrorCode.UNKNOWN_SERVER_ERROR
