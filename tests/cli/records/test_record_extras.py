"""The packages that formats with a registry need."""

import importlib.util
import subprocess
import sys

import pytest
import typer

from penstock.cli.records.formats import Format, Side

OF_OTHER_EXTRAS = ("h2", "numpy", "pandas", "prompt_toolkit", "pyarrow", "pyspark", "regex", "sqlglot")
CODECS = ("avro_json", "protobuf_json", "registered", "validated_json")


def test_the_extra_registry_suffices() -> None:
    modules = ", ".join(f"penstock.cli.records.{name}" for name in CODECS)
    script = f"import sys; sys.modules.update(dict.fromkeys({OF_OTHER_EXTRAS}))\nimport {modules}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_missing_package_is_named_with_the_way_to_install_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    installed = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "google.protobuf" else installed(name)
    )
    with pytest.raises(typer.Exit):
        Side("key", Format.AVRO, registry="http://127.0.0.1:1").decoder()
    said = " ".join(capsys.readouterr().err.split())
    assert "--key-format avro needs google.protobuf. Install the extra with:" in said
    assert "'penstock[registry]'" in said
