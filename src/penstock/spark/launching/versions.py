"""The versions of Spark that Penstock runs on."""

from __future__ import annotations

from typing import Final

from penstock.extras import needs_extra

SPARK: Final = (4, 3)
"""Python data sources of other versions have other interfaces: 4.3 brought triggers and admission control."""


def require_spark() -> None:
    """Check the version of pyspark. Raises ImportError for another version, and MissingExtra for none."""
    with needs_extra("spark", "Penstock's data source for Spark"):
        import pyspark

    if pyspark.__version__.split(".")[:2] != [str(part) for part in SPARK]:
        needed = ".".join(map(str, SPARK))
        raise ImportError(
            f"penstock needs Spark {needed}, found {pyspark.__version__}: "
            f'pip install "pyspark=={needed}.*", and use it in the cluster as well'
        )
