"""Reads and writes `meta.properties`, which names the node and cluster of a log directory (version 1, KRaft).

A directory without this file is formatted at first start. All directories of a node name the same cluster and
node, and each has its own id (KIP-858).
"""

from __future__ import annotations

import base64
import uuid
from pathlib import Path
from typing import Final, NamedTuple

from penstock.storage.disk.files import FileSystem
from penstock.storage.errors import LogDirectoryError

FILE_NAME: Final = "meta.properties"
_VERSION: Final = "1"


class MetaProperties(NamedTuple):
    """The properties of one log directory.

    Ids are in Kafka's form: 16 bytes as 22 characters of unpadded base64url; a cluster id may be any text.
    """

    cluster_id: str
    node_id: int
    directory_id: str


def random_id() -> str:
    """Generate an id in Kafka's text form, which never begins with a dash."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def read(directory: Path) -> MetaProperties | None:
    """Read the directory's properties; None if it has not been formatted. Raises LogDirectoryError."""
    path = directory / FILE_NAME
    try:
        properties = _parse(path.read_text(encoding="latin-1"))
    except FileNotFoundError:
        return None
    if properties.get("version") != _VERSION:
        raise LogDirectoryError(
            f"{path}: expected version={_VERSION}, found {properties.get('version')!r}; directories of a "
            "ZooKeeper cluster must be migrated to KRaft with Apache Kafka 3.9 first"
        )
    try:
        return MetaProperties(
            cluster_id=properties["cluster.id"],
            node_id=int(properties["node.id"]),
            directory_id=properties.get("directory.id", ""),
        )
    except KeyError as error:
        raise LogDirectoryError(f"{path}: {error.args[0]} is missing") from None
    except ValueError:
        raise LogDirectoryError(
            f"{path}: node.id: expected a number, found {properties['node.id']!r}"
        ) from None


def write(files: FileSystem, directory: Path, properties: MetaProperties) -> None:
    lines = [
        f"version={_VERSION}",
        f"cluster.id={properties.cluster_id}",
        f"node.id={properties.node_id}",
        f"directory.id={properties.directory_id}",
    ]
    files.write_atomically(directory / FILE_NAME, ("\n".join(lines) + "\n").encode("latin-1"))


def _parse(text: str) -> dict[str, str]:
    """Parse a Java properties file without line continuations, which Kafka never writes to this file."""
    properties = {}
    for line in text.splitlines():
        line = line.strip()
        if line and line[0] not in "#!":
            name, _, value = line.partition("=")
            properties[name.strip()] = value.strip().replace("\\", "")
    return properties


def claim(
    files: FileSystem,
    directories: list[Path],
    node_id: int,
    cluster_id: str | None,
    *,
    formats: bool = True,
) -> list[MetaProperties]:
    """Read the properties of each directory of this node, and format new directories if `formats` is set.

    Without `cluster_id`, the one in the directories applies, or a new one if all are unformatted. Raises
    LogDirectoryError if a directory belongs to another node or cluster, is not formatted and `formats` is not
    set, or if two have the same id.
    """
    found = {directory: read(directory) for directory in directories}
    for directory, properties in found.items():
        if properties is None:
            if not formats:
                raise LogDirectoryError(
                    f"{directory} is not formatted: run 'penstock storage format' with the cluster's id first"
                )
            continue
        cluster_id = cluster_id or properties.cluster_id
        if properties.cluster_id != cluster_id:
            raise LogDirectoryError(
                f"{directory} belongs to cluster {properties.cluster_id}, not {cluster_id}; point log.dirs "
                "at directories of this cluster only"
            )
        if properties.node_id != node_id:
            raise LogDirectoryError(
                f"{directory} belongs to node {properties.node_id}; start it with "
                f"node.id={properties.node_id}, or give node {node_id} a directory of its own"
            )
    cluster_id = cluster_id or random_id()
    claimed = []
    for directory, properties in found.items():
        if properties is None or not properties.directory_id:
            properties = MetaProperties(cluster_id, node_id, random_id())
            write(files, directory, properties)
        claimed.append(properties)
    ids = [properties.directory_id for properties in claimed]
    for directory, directory_id in zip(directories, ids, strict=True):
        if ids.count(directory_id) > 1:
            raise LogDirectoryError(
                f"{directory} has the same directory.id as another one, {directory_id}; was it copied? "
                f"Remove its {FILE_NAME} to format it again"
            )
    return claimed
