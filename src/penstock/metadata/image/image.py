"""The cluster's metadata, as the result of replaying the metadata log.

`MetadataImage.replay` is the only way to change the image, both live and at recovery. It changes the image in
place and records in a `MetadataDelta` the changes that listeners may need. The event loop owns the image: no
code awaits in the middle of a batch, so readers on the loop see whole batches only.

A record of a type unknown to this release is skipped and logged. The log on disk still contains it, so a
newer node can read it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias, cast

from penstock.metadata.image.acls import AclsImage
from penstock.metadata.image.client_quotas import ClientQuotasImage
from penstock.metadata.image.cluster import BrokerRegistration, ClusterImage
from penstock.metadata.image.configs import ConfigResource, ConfigsImage, ResourceType
from penstock.metadata.image.scram import ScramImage
from penstock.metadata.image.topics import TopicImage, TopicsImage
from penstock.protocol import messages as m

log = logging.getLogger(__name__)

_Copyable: Final = (
    *(TopicsImage, ClusterImage, ConfigsImage, ClientQuotasImage, AclsImage, ScramImage),
    *(dict, list),
)


@dataclass(slots=True)
class MetadataDelta:
    """The changes of one committed batch, or of a whole recovery, for the listeners that act on them."""

    created_topics: list[TopicImage] = field(default_factory=list)
    deleted_topics: list[TopicImage] = field(default_factory=list)
    changed_partitions: set[tuple[bytes, int]] = field(default_factory=set)
    """(topic id, partition id) of new and changed partitions of existing topics."""
    changed_configs: set[ConfigResource] = field(default_factory=set)
    features_changed: bool = False
    brokers_changed: bool = False

    @property
    def empty(self) -> bool:
        return not (
            self.created_topics
            or self.deleted_topics
            or self.changed_partitions
            or self.changed_configs
            or self.features_changed
            or self.brokers_changed
        )


class MetadataImage:
    """Topics, brokers, configs, features and all other metadata, as of ``offset``."""

    def __init__(self) -> None:
        self.offset = -1
        """The offset of the last record replayed."""
        self.epoch = -1
        self.topics = TopicsImage()
        self.cluster = ClusterImage()
        self.configs = ConfigsImage()
        self.features: dict[str, int] = {}
        self.next_producer_id = 0
        self.producer_ids: m.ProducerIdsRecord | None = None
        self.client_quotas = ClientQuotasImage()
        self.acls = AclsImage()
        self.scram = ScramImage()
        self.delegation_tokens: dict[str, m.DelegationTokenRecord] = {}
        self._transaction: list[m.Message] | None = None

    def copy(self) -> MetadataImage:
        """Return an independent image with the same content; the two share only immutable objects."""
        twin = MetadataImage()
        twin.__dict__.update(
            {
                name: value.copy() if isinstance(value, _Copyable) else value
                for name, value in self.__dict__.items()
            }
        )
        return twin

    @property
    def brokers(self) -> dict[int, BrokerRegistration]:
        return self.cluster.brokers

    @property
    def metadata_version(self) -> int:
        """The finalized level of ``metadata.version``; 0 before the bootstrap records."""
        return self.features.get("metadata.version", 0)

    def replay(self, record: m.Message, delta: MetadataDelta) -> None:
        """Apply one record; records of a metadata transaction (KIP-868) are applied when it ends."""
        if isinstance(record, m.BeginTransactionRecord):
            self._transaction = []
        elif isinstance(record, m.EndTransactionRecord):
            finished, self._transaction = self._transaction or [], None
            for waiting in finished:
                self._apply(waiting, delta)
        elif isinstance(record, m.AbortTransactionRecord):
            self._transaction = None
        elif self._transaction is not None:
            self._transaction.append(record)
        else:
            self._apply(record, delta)

    @property
    def in_transaction(self) -> bool:
        """Whether a metadata transaction (KIP-868) has begun and not ended."""
        return self._transaction is not None

    def replace_with(self, other: MetadataImage, delta: MetadataDelta) -> None:
        """Take over the content of ``other``, and add the differences to ``delta``.

        This serves to load a snapshot whose records this node has never replayed. The caller must not use
        ``other`` afterwards.
        """
        _note_differences(self, other, delta)
        self.__dict__.update(other.__dict__)

    def _apply(self, record: m.Message, delta: MetadataDelta) -> None:
        handler = _HANDLERS.get(type(record).__name__)
        if handler is None:
            log.warning("unknown metadata record skipped type=%s", type(record).__name__)
            return
        handler(self, record, delta)

    def records(self) -> Iterator[m.Message]:
        """The shortest list of records that rebuilds this image, features first, as a snapshot stores it."""
        for name, level in sorted(
            self.features.items(), key=lambda item: (item[0] != "metadata.version", item)
        ):
            yield m.FeatureLevelRecord(name=name, feature_level=level)
        yield from self.cluster.records()
        yield from self.topics.records()
        yield from self.configs.records()
        yield from self.client_quotas.records()
        if self.producer_ids is not None:
            yield self.producer_ids
        yield from self.acls.records()
        yield from self.scram.records()
        yield from self.delegation_tokens.values()


def _note_differences(old: MetadataImage, new: MetadataImage, delta: MetadataDelta) -> None:
    """Note all differences; a topic id keeps its name, and partitions are never removed."""
    for topic in old.topics:
        if topic.topic_id not in new.topics.by_id:
            _note_removed(topic, delta)
    for topic in new.topics:
        before = old.topics.by_id.get(topic.topic_id)
        if before is None:
            delta.created_topics.append(topic)
        delta.changed_partitions |= {
            (topic.topic_id, partition_id)
            for partition_id, partition in topic.partitions.items()
            if before is None or before.partitions.get(partition_id) != partition
        }
    delta.changed_configs |= old.configs.differences(new.configs)
    delta.features_changed |= old.features != new.features
    delta.brokers_changed |= old.brokers != new.brokers


def _topic(image: MetadataImage, record: m.TopicRecord, delta: MetadataDelta) -> None:
    delta.created_topics.append(image.topics.create(record))


def _remove_topic(image: MetadataImage, record: m.RemoveTopicRecord, delta: MetadataDelta) -> None:
    topic = image.topics.remove(record)
    image.configs.forget(ResourceType.TOPIC, topic.name)
    _note_removed(topic, delta)


def _note_removed(topic: TopicImage, delta: MetadataDelta) -> None:
    delta.changed_partitions -= {(topic.topic_id, partition_id) for partition_id in topic.partitions}
    if topic in delta.created_topics:
        delta.created_topics.remove(topic)
    else:
        delta.deleted_topics.append(topic)


def _partition(image: MetadataImage, record: m.PartitionRecord, delta: MetadataDelta) -> None:
    image.topics.put_partition(record)
    delta.changed_partitions.add((record.topic_id, record.partition_id))


def _partition_change(image: MetadataImage, record: m.PartitionChangeRecord, delta: MetadataDelta) -> None:
    image.topics.change_partition(record)
    delta.changed_partitions.add((record.topic_id, record.partition_id))


def _clear_elr(image: MetadataImage, record: m.ClearElrRecord, delta: MetadataDelta) -> None:
    delta.changed_partitions |= set(image.topics.clear_elr(record.topic_name))


def _config(image: MetadataImage, record: m.ConfigRecord, delta: MetadataDelta) -> None:
    delta.changed_configs.add(image.configs.replay(record))


def _feature_level(image: MetadataImage, record: m.FeatureLevelRecord, delta: MetadataDelta) -> None:
    if record.feature_level:
        image.features[record.name] = record.feature_level
    else:
        image.features.pop(record.name, None)
    delta.features_changed = True


def _register_broker(image: MetadataImage, record: m.RegisterBrokerRecord, delta: MetadataDelta) -> None:
    image.brokers[record.broker_id] = BrokerRegistration.from_record(record)
    delta.brokers_changed = True


def _unregister_broker(image: MetadataImage, record: m.UnregisterBrokerRecord, delta: MetadataDelta) -> None:
    image.brokers.pop(record.broker_id, None)
    delta.brokers_changed = True


def _change_broker(
    image: MetadataImage, record: m.BrokerRegistrationChangeRecord, delta: MetadataDelta
) -> None:
    image.brokers[record.broker_id] = image.brokers[record.broker_id].merge(record)
    delta.brokers_changed = True


def _fence_broker(image: MetadataImage, record: m.FenceBrokerRecord, delta: MetadataDelta) -> None:
    image.cluster.set_fenced(record.id, True)
    delta.brokers_changed = True


def _unfence_broker(image: MetadataImage, record: m.UnfenceBrokerRecord, delta: MetadataDelta) -> None:
    image.cluster.set_fenced(record.id, False)
    delta.brokers_changed = True


def _register_controller(
    image: MetadataImage, record: m.RegisterControllerRecord, _delta: MetadataDelta
) -> None:
    image.cluster.controllers[record.controller_id] = record


def _producer_ids(image: MetadataImage, record: m.ProducerIdsRecord, _delta: MetadataDelta) -> None:
    image.next_producer_id = record.next_producer_id
    image.producer_ids = record


def _client_quota(image: MetadataImage, record: m.ClientQuotaRecord, _delta: MetadataDelta) -> None:
    image.client_quotas.replay(record)


def _acl(image: MetadataImage, record: m.AccessControlEntryRecord, _delta: MetadataDelta) -> None:
    image.acls.put(record)


def _remove_acl(
    image: MetadataImage, record: m.RemoveAccessControlEntryRecord, _delta: MetadataDelta
) -> None:
    image.acls.remove(record)


def _scram(image: MetadataImage, record: m.UserScramCredentialRecord, _delta: MetadataDelta) -> None:
    image.scram.put(record)


def _remove_scram(
    image: MetadataImage, record: m.RemoveUserScramCredentialRecord, _delta: MetadataDelta
) -> None:
    image.scram.remove(record)


def _delegation_token(image: MetadataImage, record: m.DelegationTokenRecord, _delta: MetadataDelta) -> None:
    image.delegation_tokens[record.token_id] = record


def _remove_delegation_token(
    image: MetadataImage, record: m.RemoveDelegationTokenRecord, _delta: MetadataDelta
) -> None:
    image.delegation_tokens.pop(record.token_id, None)


def _nothing(_image: MetadataImage, _record: m.Message, _delta: MetadataDelta) -> None:
    """Skip the record: NoOp records only mark time, and migration from ZooKeeper is not supported."""


_Handler: TypeAlias = Callable[[MetadataImage, m.Message, MetadataDelta], None]

_HANDLERS: Final = cast(
    dict[str, _Handler],
    {
        "TopicRecord": _topic,
        "RemoveTopicRecord": _remove_topic,
        "PartitionRecord": _partition,
        "PartitionChangeRecord": _partition_change,
        "ClearElrRecord": _clear_elr,
        "ConfigRecord": _config,
        "FeatureLevelRecord": _feature_level,
        "RegisterBrokerRecord": _register_broker,
        "UnregisterBrokerRecord": _unregister_broker,
        "BrokerRegistrationChangeRecord": _change_broker,
        "FenceBrokerRecord": _fence_broker,
        "UnfenceBrokerRecord": _unfence_broker,
        "RegisterControllerRecord": _register_controller,
        "ProducerIdsRecord": _producer_ids,
        "ClientQuotaRecord": _client_quota,
        "AccessControlEntryRecord": _acl,
        "RemoveAccessControlEntryRecord": _remove_acl,
        "UserScramCredentialRecord": _scram,
        "RemoveUserScramCredentialRecord": _remove_scram,
        "DelegationTokenRecord": _delegation_token,
        "RemoveDelegationTokenRecord": _remove_delegation_token,
        "NoOpRecord": _nothing,
        "ZkMigrationStateRecord": _nothing,
    },
)
