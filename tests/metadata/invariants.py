"""The invariants of every metadata image."""

from penstock.metadata.image import NO_LEADER, MetadataImage, PartitionRegistration


def check_image(image: MetadataImage, *, elr: bool) -> None:
    """Assert the invariants of every partition."""
    for topic in image.topics:
        for partition_id, partition in topic.partitions.items():
            _check(image, partition, elr, f"{topic.name}-{partition_id} {partition}")


def _check(image: MetadataImage, partition: PartitionRegistration, elr: bool, what: str) -> None:
    replicas, isr = partition.replicas, partition.isr
    assert len(set(replicas)) == len(replicas) > 0, what
    assert len(set(isr)) == len(isr), what
    assert set(isr) <= set(replicas), what
    assert not set(isr) & set(partition.elr), what
    assert elr or isr, f"an empty ISR without eligible leader replicas: {what}"
    assert elr or not partition.elr, what
    assert set(partition.adding_replicas) <= set(replicas), what
    assert set(partition.removing_replicas) <= set(replicas), what
    assert not set(partition.adding_replicas) & set(partition.removing_replicas), what
    assert len(partition.directories) == len(replicas), what
    if partition.leader == NO_LEADER:
        return
    assert partition.leader in isr, what
    leader = image.brokers.get(partition.leader)
    assert leader is not None, f"an unregistered broker leads: {what}"
    assert not leader.fenced, f"a fenced broker leads: {what}"
