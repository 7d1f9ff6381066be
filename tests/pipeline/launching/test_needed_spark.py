"""Versions of Spark that the data source, or a part of it, does not work with are named."""

from __future__ import annotations

from collections.abc import Callable

import pyspark
import pytest
from pyspark.sql.types import StructType

from penstock.spark import build_session
from penstock.spark.datasource import PenstockDataSource
from penstock.spark.launching.versions import require_spark, require_spark_of_batch_reads
from penstock.streams import App, string

SOURCE = PenstockDataSource({})


def start_application() -> None:
    App("old", key=string, value=string).start(bootstrap_servers="127.0.0.1:1", checkpoint="unused")


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (require_spark, "penstock needs"),
        (lambda: build_session("old"), "penstock needs"),
        (start_application, "streams applications need"),
        (lambda: SOURCE.streamReader(StructType()), "streaming reads with penstock need"),
        (lambda: SOURCE.writer(StructType(), False), "writes with penstock need"),
        (lambda: SOURCE.streamWriter(StructType(), False), "streaming writes with penstock need"),
    ],
)
@pytest.mark.parametrize("version", ["4.0.4", "4.2.0", "5.0.0", "4.10.0"])
def test_other_versions_are_refused(
    monkeypatch: pytest.MonkeyPatch, version: str, call: Callable[[], object], said: str
) -> None:
    monkeypatch.setattr(pyspark, "__version__", version)
    with pytest.raises(ImportError, match=rf"^{said} Spark 4\.3, found {version}: pip install"):
        call()


@pytest.mark.parametrize("version", ["4.3.0", "4.3.2"])
def test_patches_of_the_version_are_accepted(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(pyspark, "__version__", version)
    require_spark()


@pytest.mark.parametrize("version", ["4.0.1", "4.2.0", "4.3.0"])
def test_batch_reads_accept_earlier_ones(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(pyspark, "__version__", version)
    require_spark_of_batch_reads()


@pytest.mark.parametrize("version", ["3.5.8", "5.0.0"])
def test_batch_reads_need_data_sources_in_python(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(pyspark, "__version__", version)
    with pytest.raises(ImportError, match=rf"penstock needs Spark 4\.3, found {version}"):
        require_spark_of_batch_reads()
