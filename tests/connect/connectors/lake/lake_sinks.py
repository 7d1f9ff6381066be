"""The table sinks under test, with readers that are not ours."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from penstock.connect.connector.sink import SinkConnector, SinkTask

Config = dict[str, str]


class DeltaTables:
    """The Delta sink; deltalake reads what it wrote."""

    has_times = False
    has_null_lists = True
    app_id = "delta.app.id"
    class_name = "DeltaSink"

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def config(self, table: str, keys: str = "", **more: str) -> Config:
        return {
            "name": "sink",
            "delta.table": str(self.folder / table),
            "delta.key.fields": keys,
            "delta.commit.interval.ms": "0",
            **more,
        }

    def operation(self, field: str) -> Config:
        return {"delta.operation.field": field}

    def partitioned_by(self, column: str) -> Config:
        return {"delta.partition.fields": column}

    def task(self) -> SinkTask:
        from penstock.connect.connectors.lake.delta import DeltaSinkTask

        return DeltaSinkTask()

    def connector(self) -> SinkConnector:
        from penstock.connect.connectors.lake.delta import DeltaSinkConnector

        return DeltaSinkConnector()

    def rows(self, table: str) -> list[dict[str, Any]]:
        from deltalake import DeltaTable

        found: list[dict[str, Any]] = DeltaTable(str(self.folder / table)).to_pyarrow_table().to_pylist()
        return found

    def exists(self, table: str) -> bool:
        from deltalake import DeltaTable

        return bool(DeltaTable.is_deltatable(str(self.folder / table)))


class IcebergTables:
    """The Iceberg sink with a catalog in SQLite; pyiceberg reads what it wrote."""

    has_times = True
    has_null_lists = False  # pyiceberg 0.12 makes an empty one of a list or map of structs that is null
    app_id = "iceberg.offsets.id"
    class_name = "org.apache.iceberg.connect.IcebergSinkConnector"

    def __init__(self, folder: Path) -> None:
        self.properties: Mapping[str, str] = {
            "type": "sql",
            "uri": f"sqlite:///{folder}/catalog.db",
            "warehouse": f"file://{folder}/warehouse",
        }

    def config(self, table: str, keys: str = "", **more: str) -> Config:
        return {
            "name": "sink",
            "iceberg.tables": f"lake.{table}",
            "iceberg.tables.auto-create-enabled": "true",
            "iceberg.tables.evolve-schema-enabled": "true",
            "iceberg.tables.upsert-mode-enabled": str(bool(keys)).lower(),
            "iceberg.tables.default-id-columns": keys,
            "iceberg.control.commit.interval-ms": "0",
            **{f"iceberg.catalog.{name}": value for name, value in self.properties.items()},
            **more,
        }

    def operation(self, field: str) -> Config:
        return {"iceberg.tables.cdc-field": field}

    def partitioned_by(self, column: str) -> Config:
        return {"iceberg.tables.default-partition-by": column}

    def task(self) -> SinkTask:
        from penstock.connect.connectors.lake.iceberg import IcebergSinkTask

        return IcebergSinkTask()

    def connector(self) -> SinkConnector:
        from penstock.connect.connectors.lake.iceberg import IcebergSinkConnector

        return IcebergSinkConnector()

    def catalog(self) -> Any:
        from pyiceberg.catalog import load_catalog

        return load_catalog("iceberg", **self.properties)

    def rows(self, table: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.catalog().load_table(f"lake.{table}").scan().to_arrow().to_pylist()
        return found

    def exists(self, table: str) -> bool:
        return bool(self.catalog().table_exists(f"lake.{table}"))


Tables = DeltaTables | IcebergTables


def tables_of(package: str, folder: Path) -> Tables:
    """Return the sink whose format a package reads; the test is skipped if it is not installed."""
    pytest.importorskip(package, reason="the extra lake is not installed")
    return DeltaTables(folder) if package == "deltalake" else IcebergTables(folder)
