"""The versions of Spark that Penstock runs on."""

from __future__ import annotations

from typing import Final

SPARK: Final = (4, 3)
"""Python data sources of other versions have other interfaces: 4.3 brought triggers and admission control."""


def require_spark() -> None:
    """Check the version of pyspark. Raises ImportError if Penstock needs another one."""
    import pyspark

    if pyspark.__version__.split(".")[:2] != [str(part) for part in SPARK]:
        needed = ".".join(map(str, SPARK))
        raise ImportError(
            f"penstock needs Spark {needed}, found {pyspark.__version__}: "
            f'pip install "pyspark=={needed}.*", and use it in the cluster as well'
        )
