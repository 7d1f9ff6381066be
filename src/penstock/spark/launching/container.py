"""The entry point of a container of the Penstock image: a Spark executor or the command line.

    python -m penstock.spark.launching.container executor       started by Spark's scheduler for Kubernetes
    python -m penstock.spark.launching.container streams run …  or any other arguments of ``penstock``

The environment variables are those that Spark sets in its pods: ``org.apache.spark.deploy.k8s.Constants``.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from penstock.spark.launching.java import JavaNotFound, find_java, launch_home

BACKEND: Final = "org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend"
_JAVA_OPTION: Final = re.compile(r"SPARK_JAVA_OPT_(\d+)")
_ARGUMENTS: Final = {
    "--driver-url": "SPARK_DRIVER_URL",
    "--executor-id": "SPARK_EXECUTOR_ID",
    "--cores": "SPARK_EXECUTOR_CORES",
    "--app-id": "SPARK_APPLICATION_ID",
    "--hostname": "SPARK_EXECUTOR_POD_IP",
    "--resourceProfileId": "SPARK_RESOURCE_PROFILE_ID",
    "--podName": "SPARK_EXECUTOR_POD_NAME",
}
"""Each argument of the executor with the environment variable that holds its value."""


class NotInAPod(RuntimeError):
    """Variables that Spark sets in its pods are missing; the message names them."""


def executor_command(environ: Mapping[str, str], java: Path, spark_home: Path) -> list[str]:
    """Return the command line of the executor that a pod's environment describes. Raises NotInAPod."""
    needed = [*_ARGUMENTS.values(), "SPARK_EXECUTOR_MEMORY"]
    if missing := [name for name in needed if not environ.get(name)]:
        raise NotInAPod(f"expected the environment of a Spark executor pod, which sets {', '.join(missing)}")
    memory = environ["SPARK_EXECUTOR_MEMORY"]
    jars = str(spark_home / "jars" / "*")
    class_path = [environ.get("SPARK_CLASSPATH"), jars, environ.get("SPARK_CONF_DIR")]
    return [
        *(str(java), *_java_options(environ), f"-Xms{memory}", f"-Xmx{memory}"),
        *("-cp", ":".join(filter(None, class_path)), BACKEND),
        *(word for argument, name in _ARGUMENTS.items() for word in (argument, environ[name])),
    ]


def _java_options(environ: Mapping[str, str]) -> list[str]:
    numbered = [(match, value) for name, value in environ.items() if (match := _JAVA_OPTION.fullmatch(name))]
    return [value for _, value in sorted((int(match[1]), value) for match, value in numbered)]


def main(words: Sequence[str]) -> None:
    if list(words[:1]) != ["executor"]:
        os.execv(sys.executable, [sys.executable, "-m", "penstock", *words])
    import pyspark

    try:
        home = launch_home(find_java())
        command = executor_command(os.environ, home / "bin" / "java", Path(pyspark.__file__).parent)
    except (JavaNotFound, NotInAPod) as error:
        sys.exit(f"penstock: {error}")
    os.environ["JAVA_HOME"] = str(home)
    os.execv(command[0], command)


if __name__ == "__main__":
    main(sys.argv[1:])
