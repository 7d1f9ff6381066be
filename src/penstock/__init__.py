"""Event streaming for Python and Spark, with Kafka's log, protocol and guarantees.

import penstock

penstock.read("orders", "127.0.0.1:9092").to_polars()
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.arrow.topic_scan import read as read

__all__ = ["read"]


def __getattr__(name: str) -> object:
    """`read` on its first use: the broker and whoever imports a part must not pay for Arrow."""
    if name != "read":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from penstock.arrow.topic_scan import read
    except ModuleNotFoundError as missing:
        if missing.name not in ("pyarrow", "numpy"):
            raise
        raise ImportError("penstock.read needs pyarrow and numpy: pip install 'penstock[arrow]'") from missing
    globals()["read"] = read
    return read


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
