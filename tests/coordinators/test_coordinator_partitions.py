from penstock.coordinators.partitions import partition_for


def test_partition_of_the_one_hash_without_a_positive_twin() -> None:
    assert partition_for("polygenelubricants", 50) == 0
    assert partition_for("hello", 50) == 22
