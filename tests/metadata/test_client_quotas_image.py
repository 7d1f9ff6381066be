"""The image of client quotas, built from records."""

from penstock.metadata.image.client_quotas import (
    CONSUMER_BYTE_RATE,
    PRODUCER_BYTE_RATE,
    ClientQuotaEntity,
    ClientQuotasImage,
    client_quota_entity,
    client_quota_record,
)
from penstock.protocol.messages import ClientQuotaRecord

ANN = client_quota_entity({"user": "ann"})
DEFAULT_USER = client_quota_entity({"user": None})


def image_of(*values: tuple[ClientQuotaEntity, str, float | None]) -> ClientQuotasImage:
    image = ClientQuotasImage()
    for entity, key, value in values:
        image.replay(client_quota_record(entity, key, value))
    return image


def test_values_are_set_changed_and_removed() -> None:
    image = image_of(
        (ANN, PRODUCER_BYTE_RATE, 10.0),
        (ANN, CONSUMER_BYTE_RATE, 20.0),
        (DEFAULT_USER, PRODUCER_BYTE_RATE, 5.0),
    )
    assert image.by_entity == {
        ANN: {PRODUCER_BYTE_RATE: 10.0, CONSUMER_BYTE_RATE: 20.0},
        DEFAULT_USER: {PRODUCER_BYTE_RATE: 5.0},
    }
    image.replay(client_quota_record(ANN, PRODUCER_BYTE_RATE, 11.0))
    image.replay(client_quota_record(ANN, CONSUMER_BYTE_RATE, None))
    image.replay(client_quota_record(DEFAULT_USER, PRODUCER_BYTE_RATE, None))
    assert image.by_entity == {ANN: {PRODUCER_BYTE_RATE: 11.0}}


def test_removing_what_is_not_there_changes_nothing() -> None:
    image = image_of((ANN, PRODUCER_BYTE_RATE, None), (DEFAULT_USER, CONSUMER_BYTE_RATE, 1.0))
    image.replay(client_quota_record(DEFAULT_USER, PRODUCER_BYTE_RATE, None))
    assert image.by_entity == {DEFAULT_USER: {CONSUMER_BYTE_RATE: 1.0}}


def test_the_order_of_types_in_a_record_does_not_matter() -> None:
    parts = [
        ClientQuotaRecord.EntityData(entity_type="user", entity_name="ann"),
        ClientQuotaRecord.EntityData(entity_type="client-id", entity_name=None),
    ]
    image = ClientQuotasImage()
    image.replay(ClientQuotaRecord(entity=parts, key=PRODUCER_BYTE_RATE, value=1.0))
    image.replay(ClientQuotaRecord(entity=parts[::-1], key=PRODUCER_BYTE_RATE, value=2.0))
    both = client_quota_entity({"client-id": None, "user": "ann"})
    assert image.by_entity == {both: {PRODUCER_BYTE_RATE: 2.0}}


def test_records_rebuild_the_image() -> None:
    image = image_of(
        (ANN, PRODUCER_BYTE_RATE, 10.5),
        (client_quota_entity({"user": "ann", "client-id": "c"}), CONSUMER_BYTE_RATE, 1.0),
        (client_quota_entity({"planet": "mars"}), "of_a_newer_release", 3.0),
    )
    again = ClientQuotasImage()
    for record in image.records():
        again.replay(record)
    assert again.by_entity == image.by_entity


def test_a_version_belongs_to_one_state() -> None:
    image = image_of((ANN, PRODUCER_BYTE_RATE, 10.0))
    copy = image.copy()
    assert copy.version == image.version
    values = image.by_entity[ANN]
    copy.replay(client_quota_record(ANN, PRODUCER_BYTE_RATE, 11.0))
    image.replay(client_quota_record(ANN, PRODUCER_BYTE_RATE, 12.0))
    assert copy.version != image.version
    assert copy.by_entity == {ANN: {PRODUCER_BYTE_RATE: 11.0}}
    assert values == {PRODUCER_BYTE_RATE: 10.0}, "whoever holds the values of a state keeps them"
