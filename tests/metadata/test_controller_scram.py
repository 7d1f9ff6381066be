"""SCRAM credentials: the controller's decisions, and the lookup in the image."""

import pytest
from controller_bench import ControllerBench

from penstock.metadata.controller.scram import alter_scram_credentials
from penstock.metadata.image import MetadataDelta, MetadataImage
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    AlterUserScramCredentialsRequest,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from penstock.security.scram import ScramMechanism, credential, salted_password

SHA_256, SHA_512 = ScramMechanism
Deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion
Upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion
SALT = b"salt"
SALTED = salted_password(SHA_256, "pencil", SALT, 4096)
DUPLICATE = "A user credential cannot be altered twice in the same request"


@pytest.fixture
def bench() -> ControllerBench:
    return ControllerBench()


def upsertion(user: str, mechanism: int = SHA_256, iterations: int = 4096) -> Upsertion:
    return Upsertion(name=user, mechanism=mechanism, iterations=iterations, salt=SALT, salted_password=SALTED)


def alter(bench: ControllerBench, *alterations: Deletion | Upsertion) -> list[tuple[str, int, str | None]]:
    request = AlterUserScramCredentialsRequest(
        deletions=[each for each in alterations if isinstance(each, Deletion)],
        upsertions=[each for each in alterations if isinstance(each, Upsertion)],
    )
    results = bench.do(alter_scram_credentials, request).results
    return [(result.user, result.error_code, result.error_message) for result in results]


def test_a_credential_is_set_changed_and_deleted(bench: ControllerBench) -> None:
    assert alter(bench, upsertion("ann"), upsertion("bert", SHA_512)) == [("ann", 0, None), ("bert", 0, None)]
    scram = bench.image.scram
    assert scram.credential(SHA_256, "ann") == credential(SHA_256, SALT, SALTED, 4096)
    assert scram.credential(SHA_512, "ann") is None
    assert scram.users() == ["ann", "bert"]
    assert alter(bench, upsertion("ann", iterations=8192)) == [("ann", 0, None)]
    changed = scram.credential(SHA_256, "ann")
    assert changed is not None
    assert changed.iterations == 8192
    assert alter(bench, Deletion(name="ann", mechanism=1)) == [("ann", 0, None)]
    assert scram.credential(SHA_256, "ann") is None
    assert scram.users() == ["bert"]


def test_the_salted_password_is_not_in_the_log(bench: ControllerBench) -> None:
    alter(bench, upsertion("ann"))
    [record] = bench.records
    assert isinstance(record, UserScramCredentialRecord)
    assert SALTED not in record.encode(0)


@pytest.mark.parametrize(
    ("alteration", "code", "message"),
    [
        (upsertion(""), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        (upsertion("ann", 3), ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (upsertion("ann", iterations=4095), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        (upsertion("ann", iterations=16385), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
        (
            Upsertion(name="ann", mechanism=1, iterations=4096, salt=SALT),
            ErrorCode.UNACCEPTABLE_CREDENTIAL,
            "The salted password must not be empty",
        ),
        (
            Deletion(name="ann", mechanism=1),
            ErrorCode.RESOURCE_NOT_FOUND,
            "Attempt to delete a user credential that does not exist",
        ),
        (
            Deletion(name="ann", mechanism=0),
            ErrorCode.UNSUPPORTED_SASL_MECHANISM,
            "Unknown SCRAM mechanism",
        ),
    ],
)
def test_what_is_refused_has_no_effect_on_others(
    bench: ControllerBench, alteration: Deletion | Upsertion, code: ErrorCode, message: str
) -> None:
    results = alter(bench, alteration, upsertion("bert"))
    assert results == [("bert", 0, None), (alteration.name, code, message)]
    assert bench.image.scram.users() == ["bert"]


@pytest.mark.parametrize("second", [upsertion("ann", SHA_512), Deletion(name="ann", mechanism=1)])
def test_a_user_is_altered_once_in_a_request(bench: ControllerBench, second: Deletion | Upsertion) -> None:
    alter(bench, upsertion("ann"))
    before = list(bench.image.records())
    refused = [("ann", ErrorCode.DUPLICATE_RESOURCE, DUPLICATE)]
    assert alter(bench, upsertion("ann", iterations=8192), second) == refused
    assert alter(bench, second, upsertion("ann"), upsertion("ann")) == refused, "the third time, too"
    assert list(bench.image.records()) == before


def test_an_old_metadata_version_has_no_credentials() -> None:
    bench = ControllerBench(metadata_version=10)
    refused = ErrorCode.UNSUPPORTED_VERSION, "The current metadata.version does not support SCRAM"
    assert alter(bench, upsertion("ann"), Deletion(name="bert", mechanism=1)) == [
        ("bert", *refused),
        ("ann", *refused),
    ]
    assert bench.records == []


def test_a_mechanism_of_a_newer_release_is_kept_but_has_no_lookup() -> None:
    image = MetadataImage()
    newer = UserScramCredentialRecord(name="ann", mechanism=9, salt=SALT, stored_key=b"k", server_key=b"v")
    image.replay(newer, MetadataDelta())
    assert list(image.records()) == [newer]
    assert image.scram.users() == []
    image.replay(RemoveUserScramCredentialRecord(name="ann", mechanism=9), MetadataDelta())
    assert list(image.records()) == []
