"""A query of many topics refuses tables that another query has written; without Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from penstock.spark import DeltaTarget, Edit
from penstock.spark.changes.several import require_own

pytest.importorskip("deltalake")


def test_a_table_of_another_query_is_refused(tmp_path: Path) -> None:
    """Rows that were deleted before the query began would stay in it."""
    table = DeltaTarget(str(tmp_path / "orders"))
    require_own(table, "shop.inv.orders", "mine")
    ids = pa.table({"id": [1, 2]})
    table.write(Edit(("id",), ids, ids.slice(0, 0)), "other", 0)
    with pytest.raises(ValueError, match=r"shop\.inv\.orders has rows that another query has written"):
        require_own(table, "shop.inv.orders", "mine")
    require_own(table, "shop.inv.orders", "other")
    table.write(Edit(("id",), ids.slice(0, 0), ids, everything=True), "other", 1)
    require_own(table, "shop.inv.orders", "mine")
