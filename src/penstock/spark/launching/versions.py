"""The versions of Spark that Penstock runs on."""

from __future__ import annotations

from typing import Final

from penstock.extras import needs_extra

SPARK: Final = (4, 3)
"""Python data sources of other versions have other interfaces: 4.3 brought triggers and admission control."""
SPARK_OF_BATCH_READS: Final = ((4, 0), (4, 1), (4, 2), SPARK)
"""The interface of batch reads has not changed since 4.0, which brought Python data sources."""


def require_spark(what: str = "penstock needs") -> None:
    """Check the version of pyspark; ``what`` begins the error.

    Raises ImportError for another version, and MissingExtra for none.
    """
    found = _installed()
    if _release(found) != SPARK:
        needed = ".".join(map(str, SPARK))
        raise ImportError(
            f"{what} Spark {needed}, found {found}: "
            f'pip install "pyspark=={needed}.*", and use it in the cluster as well'
        )


def require_spark_of_batch_reads() -> None:
    """Check that batch reads work with the version of pyspark. Raises what `require_spark` raises."""
    if _release(_installed()) not in SPARK_OF_BATCH_READS:
        require_spark()


def _installed() -> str:
    with needs_extra("spark", "Penstock's data source for Spark"):
        import pyspark

    return str(pyspark.__version__)


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])
