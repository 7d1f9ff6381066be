"""Other versions of Spark than the supported one are named."""

import pyspark
import pytest

from penstock.spark import build_session, register
from penstock.spark.launching.versions import require_spark


@pytest.mark.parametrize("version", ["4.0.4", "4.2.0", "5.0.0"])
def test_other_versions_are_refused(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(pyspark, "__version__", version)
    for needs_spark in (require_spark, lambda: register(None), lambda: build_session("old")):
        with pytest.raises(ImportError, match=rf"needs Spark 4\.3, found {version}: pip install"):
            needs_spark()


@pytest.mark.parametrize("version", ["4.3.0", "4.3.2"])
def test_patches_of_the_version_are_accepted(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(pyspark, "__version__", version)
    require_spark()
