"""The operations that a client may perform, as the bit fields of Metadata and the describe APIs (KIP-430).

Bit n stands for the ACL operation with the number n. Without an authorizer, every client may perform all of
them.
"""

from __future__ import annotations

from typing import Final

READ: Final = 3
WRITE: Final = 4
CREATE: Final = 5
DELETE: Final = 6
ALTER: Final = 7
DESCRIBE: Final = 8
CLUSTER_ACTION: Final = 9
DESCRIBE_CONFIGS: Final = 10
ALTER_CONFIGS: Final = 11
IDEMPOTENT_WRITE: Final = 12


def bits(*operations: int) -> int:
    """The bit field of some operations."""
    return sum(1 << operation for operation in operations)


TOPIC_OPERATIONS: Final = bits(READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS)
CLUSTER_OPERATIONS: Final = bits(
    CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE
)
