"""Manifests checked against Kubernetes' schemas, and commands run as far as possible without a cluster.

The commands start JVMs and take half a minute: PENSTOCK_CLUSTERS=1 runs them.
"""

from __future__ import annotations

import os
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from penstock.cli.app_file import load_app
from penstock.spark.launching.container import NotInAPod, executor_command
from penstock.spark.launching.java import find_java, launch_home

ROOT = Path(__file__).parents[2]
KUBERNETES = ROOT / "deploy" / "kubernetes"
MANIFESTS = sorted(KUBERNETES.glob("*.yaml"))
RELEASES = ("1.31", ".".join(kubernetes_validate.latest_version().split(".")[:2]))
"""The oldest release that any vendor still maintains, and the newest that the validator supports."""

with_jvms = pytest.mark.skipif("PENSTOCK_CLUSTERS" not in os.environ, reason="PENSTOCK_CLUSTERS is not set")

# No process listens at this address.
NOWHERE = "127.0.0.1:1"


def documents(manifest: Path) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all(manifest.read_text()))


def named(manifest: Path, kind: str) -> dict[str, Any]:
    [found] = [document for document in documents(manifest) if document["kind"] == kind]
    return found


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.stem)
def test_manifests_follow_the_schemas(manifest: Path, release: str) -> None:
    for document in documents(manifest):
        kubernetes_validate.validate(document, release, strict=True)
    template = named(manifest, "ConfigMap")["data"].get("executor.yaml")
    if template is not None:
        kubernetes_validate.validate(yaml.safe_load(template), release, strict=True)


def test_the_validator_finds_a_wrong_field() -> None:
    wrong = named(KUBERNETES / "streams-cluster.yaml", "StatefulSet")
    wrong["spec"]["template"]["spec"]["containers"][0]["argz"] = []
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, RELEASES[0], strict=True)


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.stem)
def test_what_manifests_name_is_in_them(manifest: Path) -> None:
    there = {(document["kind"], document["metadata"]["name"]) for document in documents(manifest)}
    stateful = named(manifest, "StatefulSet")["spec"]
    pods = [stateful["template"]["spec"]]
    template = named(manifest, "ConfigMap")["data"].get("executor.yaml")
    if template is not None:
        pods.append(yaml.safe_load(template)["spec"])
    assert ("Service", stateful["serviceName"]) in there
    claimed = {claim["metadata"]["name"] for claim in stateful.get("volumeClaimTemplates", [])}
    for pod in pods:
        if "serviceAccountName" in pod:
            assert ("ServiceAccount", pod["serviceAccountName"]) in there
        volumes = {volume["name"]: volume for volume in pod["volumes"]}
        for volume in volumes.values():
            if "configMap" in volume:
                assert ("ConfigMap", volume["configMap"]["name"]) in there
            else:
                assert ("PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"]) in there
        [container] = pod["containers"]
        assert {mount["name"] for mount in container["volumeMounts"]} <= volumes.keys() | claimed
    assert stateful["template"]["metadata"]["labels"] == stateful["selector"]["matchLabels"]


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda path: path.stem)
def test_the_application_in_a_manifest_is_one(manifest: Path, tmp_path: Path) -> None:
    file = tmp_path / "app.py"
    file.write_text(named(manifest, "ConfigMap")["data"]["app.py"])
    application, _ = load_app(file)
    assert application.topology().source_topics().keys() == {"clicks"}


POD = {
    "SPARK_DRIVER_URL": f"spark://CoarseGrainedScheduler@{NOWHERE}",
    "SPARK_EXECUTOR_ID": "1",
    "SPARK_EXECUTOR_CORES": "1",
    "SPARK_EXECUTOR_MEMORY": "512m",
    "SPARK_APPLICATION_ID": "spark-application-1",
    "SPARK_EXECUTOR_POD_IP": "127.0.0.1",
    "SPARK_EXECUTOR_POD_NAME": "shop-exec-1",
    "SPARK_RESOURCE_PROFILE_ID": "0",
}


def test_an_executor_s_command_is_what_its_pod_says() -> None:
    pod = POD | {"SPARK_JAVA_OPT_10": "-Dlast", "SPARK_JAVA_OPT_2": "-Dfirst", "SPARK_CLASSPATH": "/x.jar"}
    command = executor_command(pod, Path("/java"), Path("/spark"))
    assert command[:5] == ["/java", "-Dfirst", "-Dlast", "-Xms512m", "-Xmx512m"]
    assert command[command.index("-cp") + 1] == "/x.jar:/spark/jars/*"
    assert command[command.index("--podName") + 1] == "shop-exec-1"
    del pod["SPARK_DRIVER_URL"]
    with pytest.raises(NotInAPod, match="executor pod, which sets SPARK_DRIVER_URL"):
        executor_command(pod, Path("/java"), Path("/spark"))


def run(words: list[str], timeout_s: float, **environment: str) -> str:
    """Run a command that must fail and return its output."""
    path = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        words,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
        env=os.environ | {"PYTHONPATH": path, "SPARK_LOCAL_IP": "127.0.0.1"} | environment,
    )
    assert done.returncode != 0
    return done.stdout + done.stderr


@pytest.fixture
def listener() -> Iterator[str]:
    """A listener in place of a broker: the commands connect to it but send no further requests."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@with_jvms
def test_an_executor_of_the_image_gets_as_far_as_its_driver() -> None:
    said = run([sys.executable, "-m", "penstock.spark.launching.container", "executor"], 60, **POD)
    assert f"Failed to connect to /{NOWHERE}" in said, said[-2000:]
    command = [
        sys.executable,
        "-m",
        "penstock.spark.launching.container",
        "streams",
        "describe",
        "nowhere.py",
    ]
    assert "nowhere.py: there is no such file" in run(command, 30)


@with_jvms
def test_a_manifest_s_command_gets_as_far_as_kubernetes(tmp_path: Path, listener: str) -> None:
    """The command runs with the master, addresses and paths of this machine."""
    manifest = KUBERNETES / "streams-cluster.yaml"
    data = named(manifest, "ConfigMap")["data"]
    for name, text in data.items():
        (tmp_path / name).write_text(text)
    [container] = named(manifest, "StatefulSet")["spec"]["template"]["spec"]["containers"]
    own = {"POD_NAME": "penstock-shop-0", "POD_NAMESPACE": "shop", "POD_IP": "127.0.0.1"}
    assert {variable["name"] for variable in container["env"]} == own.keys()
    words = []
    for word in container["args"]:
        word = re.sub(r"\$\((\w+)\)", lambda match: own[match[1]], word)
        word = word.replace("/etc/penstock", str(tmp_path)).replace("/checkpoint", str(tmp_path))
        word = word.replace("https://kubernetes.default.svc", f"https://{NOWHERE}")
        words.append(re.sub("^--bootstrap=.*", f"--bootstrap={listener}", word))
    assert f"--master=k8s://https://{NOWHERE}" in words
    said = run([sys.executable, "-m", "penstock.spark.launching.container", *words], 100)
    assert f"error: Spark: External scheduler cannot be instantiated: Connection refused: /{NOWHERE}" in said


@pytest.fixture
def hadoop_conf(tmp_path: Path) -> Path:
    """The configuration of an absent YARN cluster, with short timeouts."""
    settings = {
        "yarn.resourcemanager.address": NOWHERE,
        "yarn.resourcemanager.connect.max-wait.ms": "1000",
        "yarn.resourcemanager.connect.retry-interval.ms": "500",
        "ipc.client.connect.max.retries": "1",
        "ipc.client.connect.retry.interval": "100",
    }
    properties = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>" for name, value in settings.items()
    )
    directory = tmp_path / "hadoop"
    directory.mkdir()
    for name in ("core-site.xml", "yarn-site.xml"):
        (directory / name).write_text(f"<configuration>{properties}</configuration>")
    return directory


@pytest.fixture
def app_file(tmp_path: Path) -> Path:
    file = tmp_path / "app.py"
    file.write_text(named(KUBERNETES / "streams-cluster.yaml", "ConfigMap")["data"]["app.py"])
    return file


@with_jvms
def test_yarn_is_reached_for_from_either_side(app_file: Path, hadoop_conf: Path, listener: str) -> None:
    """The driver runs here, or the printed command submits it to the cluster."""
    penstock = [sys.executable, "-m", "penstock", "streams"]
    words = [str(app_file), "--bootstrap", listener, "--checkpoint", f"hdfs://{NOWHERE}/shop"]
    conf = {"HADOOP_CONF_DIR": str(hadoop_conf)}
    said = run([*penstock, "run", *words, "--master", "yarn"], 60, **conf)
    assert "to localhost:1 failed on connection exception" in said, said[-3000:]
    submit = subprocess.run(
        [*penstock, "submit-command", *words], capture_output=True, text=True, check=True, timeout=30
    ).stdout
    command = shlex.split(submit)
    assert command[0] == "spark-submit"
    own = ["--master=yarn", f"--bootstrap={listener}", f"--checkpoint=hdfs://{NOWHERE}/shop"]
    assert command[-3:] == own
    command[0] = str(Path(sys.executable).with_name("spark-submit"))
    home = str(launch_home(find_java()))
    said = run(command, 60, JAVA_HOME=home, **conf)
    assert "to localhost:1 failed on connection exception" in said, said[-3000:]


def test_a_submitted_checkpoint_is_one_that_nodes_reach(app_file: Path) -> None:
    words = ("submit-command", str(app_file), "--checkpoint", "/checkpoints/shop")
    said = run([sys.executable, "-m", "penstock", "streams", *words], 30)
    assert "--checkpoint /checkpoints/shop: expected a URI that all nodes reach" in said
