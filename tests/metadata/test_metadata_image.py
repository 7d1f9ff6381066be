"""The image built from records, and rebuilt from its own records."""

import logging

import pytest

from penstock.metadata.image import (
    NO_LEADER,
    UNASSIGNED_DIRECTORY,
    MetadataDelta,
    MetadataImage,
    ResourceType,
)
from penstock.protocol import messages as m

TOPIC, OTHER = bytes([1]) * 16, bytes([2]) * 16


def image_of(*records: m.Message) -> tuple[MetadataImage, MetadataDelta]:
    image, delta = MetadataImage(), MetadataDelta()
    for record in records:
        image.replay(record, delta)
    return image, delta


def topic(name: str = "t", topic_id: bytes = TOPIC) -> m.TopicRecord:
    return m.TopicRecord(name=name, topic_id=topic_id)


def partition(partition_id: int = 0, topic_id: bytes = TOPIC, **fields: object) -> m.PartitionRecord:
    values: dict[str, object] = {
        "replicas": [1, 2],
        "isr": [1, 2],
        "leader": 1,
        "leader_epoch": 0,
        "partition_epoch": 0,
        "directories": [OTHER, OTHER],
        **fields,
    }
    return m.PartitionRecord(partition_id=partition_id, topic_id=topic_id, **values)  # type: ignore[arg-type]


def change(**fields: object) -> m.PartitionChangeRecord:
    return m.PartitionChangeRecord(partition_id=0, topic_id=TOPIC, **fields)  # type: ignore[arg-type]


EVERYTHING: tuple[m.Message, ...] = (
    m.FeatureLevelRecord(name="metadata.version", feature_level=30),
    m.FeatureLevelRecord(name="group.version", feature_level=1),
    m.RegisterControllerRecord(controller_id=1, incarnation_id=OTHER),
    m.RegisterBrokerRecord(
        broker_id=1,
        broker_epoch=5,
        incarnation_id=TOPIC,
        end_points=[m.RegisterBrokerRecord.BrokerEndpoint(name="A", host="h", port=1, security_protocol=0)],
        features=[
            m.RegisterBrokerRecord.BrokerFeature(
                name="metadata.version", min_supported_version=7, max_supported_version=30
            )
        ],
        rack="r",
        fenced=False,
        log_dirs=[OTHER],
        cordoned_log_dirs=[],
    ),
    topic(),
    partition(),
    partition(1, isr=[1], eligible_leader_replicas=[2], last_known_elr=[3]),
    topic("u", OTHER),
    partition(topic_id=OTHER),
    m.ConfigRecord(resource_type=2, resource_name="t", name="retention.ms", value="5"),
    m.ConfigRecord(resource_type=4, resource_name="", name="max.connections", value="9"),
    m.ClientQuotaRecord(
        entity=[m.ClientQuotaRecord.EntityData(entity_type="user", entity_name=None)],
        key="producer_byte_rate",
        value=1.5,
        remove=False,
    ),
    m.ProducerIdsRecord(broker_id=1, broker_epoch=5, next_producer_id=2000),
    m.AccessControlEntryRecord(id=TOPIC, resource_name="t", principal="User:a", host="*"),
    m.UserScramCredentialRecord(name="a", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v"),
    m.DelegationTokenRecord(owner="a", requester="a", token_id="x"),
)


def test_the_records_of_an_image_make_it_again() -> None:
    image, _ = image_of(*EVERYTHING)
    again, _ = image_of(*image.records())
    assert list(again.records()) == list(image.records())
    assert sorted(map(repr, image.records())) == sorted(map(repr, EVERYTHING))
    assert next(image.records()) == EVERYTHING[0], "metadata.version governs how the others are read"


def test_a_copy_goes_its_own_way() -> None:
    image, _ = image_of(*EVERYTHING)
    before = list(image.records())
    copy = image.copy()
    assert list(copy.records()) == before
    for record in (
        m.RemoveTopicRecord(topic_id=TOPIC),
        m.ConfigRecord(resource_type=4, resource_name="", name="max.connections", value=None),
        m.UnregisterBrokerRecord(broker_id=1, broker_epoch=5),
        m.FeatureLevelRecord(name="group.version", feature_level=0),
        m.RemoveAccessControlEntryRecord(id=TOPIC),
        m.RemoveUserScramCredentialRecord(name="a", mechanism=1),
        m.RemoveDelegationTokenRecord(token_id="x"),
        m.ClientQuotaRecord(
            entity=[m.ClientQuotaRecord.EntityData(entity_type="user", entity_name=None)],
            key="producer_byte_rate",
            remove=True,
        ),
    ):
        copy.replay(record, MetadataDelta())
    assert list(image.records()) == before
    assert {type(record).__name__ for record in copy.records()} == {
        "FeatureLevelRecord",
        "RegisterControllerRecord",
        "TopicRecord",
        "PartitionRecord",
        "ProducerIdsRecord",
    }


def test_naming_a_leader_begins_an_epoch() -> None:
    image, _ = image_of(topic(), partition(), change(leader=1))
    changed = image.topics.partition("t", 0)
    assert changed is not None
    assert (changed.leader, changed.leader_epoch, changed.partition_epoch) == (1, 1, 1)


def test_a_change_of_the_isr_leaves_leader_and_epoch() -> None:
    image, _ = image_of(topic(), partition(), change(isr=[2]))
    changed = image.topics.partition("t", 0)
    assert changed is not None
    assert (changed.isr, changed.leader, changed.leader_epoch, changed.partition_epoch) == ((2,), 1, 0, 1)


def test_a_partition_can_lose_its_leader() -> None:
    image, _ = image_of(topic(), partition(), change(leader=NO_LEADER, isr=[], eligible_leader_replicas=[1]))
    changed = image.topics.partition("t", 0)
    assert changed is not None
    assert (changed.leader, changed.isr, changed.elr) == (NO_LEADER, (), (1,))
    image.replay(m.ClearElrRecord(topic_name="t"), MetadataDelta())
    cleared = image.topics.partition("t", 0)
    assert cleared is not None
    assert cleared.elr == ()


def test_new_replicas_have_no_directory_yet() -> None:
    image, _ = image_of(topic(), partition(), change(replicas=[2, 3]))
    changed = image.topics.partition("t", 0)
    assert changed is not None
    assert changed.directories == (OTHER, UNASSIGNED_DIRECTORY)


def test_a_deleted_topic_takes_its_configs_along() -> None:
    image, delta = image_of(*EVERYTHING)
    delta = MetadataDelta()
    image.replay(m.RemoveTopicRecord(topic_id=TOPIC), delta)
    assert [deleted.name for deleted in delta.deleted_topics] == ["t"]
    assert image.configs.of(ResourceType.TOPIC, "t") == {}
    assert image.configs.names(ResourceType.BROKER) == [""]


def test_a_topic_created_and_deleted_in_one_go_is_nobodys_business() -> None:
    _, delta = image_of(topic(), partition(), m.RemoveTopicRecord(topic_id=TOPIC))
    assert delta.empty


def test_a_recreated_topic_has_another_id() -> None:
    image, delta = image_of(topic(), m.RemoveTopicRecord(topic_id=TOPIC), topic(topic_id=OTHER))
    assert image.topics.by_name["t"].topic_id == OTHER
    assert TOPIC not in image.topics.by_id
    assert [created.topic_id for created in delta.created_topics] == [OTHER]


def test_brokers_are_fenced_and_unfenced() -> None:
    image, _ = image_of(m.RegisterBrokerRecord(broker_id=1, broker_epoch=3, fenced=True))
    assert image.cluster.unfenced_brokers() == []
    for record, serves in (
        (m.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=3, fenced=-1), True),
        (m.FenceBrokerRecord(id=1, epoch=3), False),
        (m.UnfenceBrokerRecord(id=1, epoch=3), True),
        (m.BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=3, in_controlled_shutdown=1), True),
    ):
        image.replay(record, MetadataDelta())
        assert bool(image.cluster.unfenced_brokers()) is serves
    assert image.brokers[1].in_controlled_shutdown


def test_a_metadata_transaction_counts_from_its_end() -> None:
    image, delta = image_of(m.BeginTransactionRecord(name="n"), topic())
    assert len(image.topics) == 0
    image.replay(m.EndTransactionRecord(), delta)
    assert "t" in image.topics.by_name


def test_an_aborted_or_unfinished_metadata_transaction_leaves_nothing() -> None:
    image, _ = image_of(m.BeginTransactionRecord(), topic(), m.AbortTransactionRecord(reason="no"))
    image.replay(m.EndTransactionRecord(), MetadataDelta())
    assert len(image.topics) == 0
    image.replay(m.BeginTransactionRecord(), MetadataDelta())
    image.replay(topic(), MetadataDelta())
    assert image.in_transaction
    image.replay(m.AbortTransactionRecord(reason="Controller failover"), MetadataDelta())
    assert not image.in_transaction
    assert len(image.topics) == 0


def test_other_records_are_kept_out_with_a_log_line(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        image, delta = image_of(m.LeaderChangeMessage(), m.NoOpRecord(), m.ZkMigrationStateRecord())
    assert delta.empty
    assert list(image.records()) == []
    assert [record.message for record in caplog.records] == [
        "unknown metadata record skipped type=LeaderChangeMessage"
    ]
