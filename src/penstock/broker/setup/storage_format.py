"""Format log directories before a node's first start, for `penstock storage format`.

Each directory gets a ``bootstrap.checkpoint`` with the features and the first users of a new cluster, and
finally the ``meta.properties`` that marks it as formatted. The first voters of a dynamic quorum (KIP-853) are
written to a snapshot of an empty metadata log, in the metadata directory of every node that is formatted with
them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from penstock.broker.setup.add_scram import InvalidScram, scram_records
from penstock.consensus.voters import Address, ReplicaKey, Voter, VoterSet
from penstock.metadata.configs import BrokerConfig
from penstock.metadata.controller.features import KRAFT_VERSION, METADATA_VERSION, SCRAM_LEVEL
from penstock.metadata.controller.releases import (
    RELEASES,
    UnknownFeature,
    feature_records,
    initial_features,
    release_level,
)
from penstock.metadata.snapshot import BOOTSTRAP_FILE, QuorumRecords, encode_snapshot, file_name
from penstock.protocol.api_keys import TARGET_METADATA_LEVEL
from penstock.protocol.messages import Message
from penstock.protocol.uuids import uuid_from_text, uuid_to_text
from penstock.storage.directories import meta_properties
from penstock.storage.directories.meta_properties import MetaProperties, random_id
from penstock.storage.disk.files import REAL_FILES, FileSystem
from penstock.storage.errors import LogDirectoryError
from penstock.storage.names import CLUSTER_METADATA_TOPIC

DYNAMIC: Final = 1
"""The level of ``kraft.version`` from which on the metadata log contains the voters."""

_VOTER: Final = re.compile(r"(\d+)@(?:\[([0-9A-Fa-f:.%]+)\]|([^:\[\]]+)):(\d+):([A-Za-z0-9_-]{22})")


class CannotFormat(Exception):
    """The directories cannot be formatted with these options; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class FormatOptions:
    """The options of `penstock storage format`, with Kafka's names.

    ``records`` are further records that a new cluster begins with, such as ACLs.
    """

    cluster_id: str
    standalone: bool = False
    initial_controllers: str | None = None
    no_initial_controllers: bool = False
    ignore_formatted: bool = False
    release_version: str | None = None
    features: Mapping[str, int] = field(default_factory=dict)
    add_scram: Sequence[str] = field(default=(), repr=False)
    records: Sequence[Message] = field(default=(), repr=False)


def format_storage(
    config: BrokerConfig, options: FormatOptions, now_ms: int, files: FileSystem = REAL_FILES
) -> Iterator[str]:
    """Format a node's log directories, and yield lines of text that report the progress.

    Raises CannotFormat, also for directories that belong to another node or cluster; LogDirectoryError for an
    invalid meta.properties; OSError.
    """
    voters = _initial_voters(config, options)
    levels = _levels(config, options)
    metadata_level = levels[METADATA_VERSION]
    records = [*feature_records(levels), *_credentials(options, metadata_level), *options.records]
    found = _already_there(config, options)
    new = [directory for directory, properties in found.items() if properties is None]
    if not new:
        yield "All of the log directories are already formatted."
        return
    yield "Bootstrap metadata: " + ", ".join(
        f"{name}={level}" for name, level in sorted(levels.items()) if level
    )
    for directory in new:
        own = voters.get(config.node_id) if voters and directory == config.metadata_log_dir else None
        kind = _kind(config, directory, voters)
        yield f"Formatting {kind} {directory} with {METADATA_VERSION} {RELEASES[metadata_level]}."
        files.mkdir(directory, exist_ok=True)
        files.write_atomically(directory / BOOTSTRAP_FILE, _snapshot(records, metadata_level, now_ms, None))
        if voters is not None and directory == config.metadata_log_dir:
            _write_first_snapshot(files, directory, voters, metadata_level, now_ms)
        directory_id = random_id() if own is None else uuid_to_text(own.key.directory_id)
        meta_properties.write(
            files, directory, MetaProperties(options.cluster_id, config.node_id, directory_id)
        )


def storage_info(directories: Sequence[Path]) -> tuple[list[str], list[str]]:
    """Describe log directories: return lines about their metadata, and lines about problems with them."""
    lines: list[str] = []
    problems: list[str] = []
    there: list[Path] = []
    first: MetaProperties | None = None
    for directory in sorted(directories):
        if not directory.is_dir():
            problems.append(f"{directory} {'is not a directory' if directory.exists() else 'does not exist'}")
            continue
        there.append(directory)
        try:
            properties = meta_properties.read(directory)
        except (LogDirectoryError, OSError) as error:
            problems.append(str(error))
            continue
        if properties is None:
            problems.append(f"{directory} is not formatted.")
        elif first is None:
            first = properties
        elif properties.cluster_id != first.cluster_id:
            problems.append("Mismatched cluster IDs between storage directories.")
        elif properties.node_id != first.node_id:
            problems.append("Mismatched node IDs between storage directories.")
    if there:
        lines += ["Found log directories:" if len(there) > 1 else "Found log directory:"]
        lines += [*(f"  {directory}" for directory in there), ""]
    if first is not None:
        found = {
            "cluster.id": first.cluster_id,
            "directory.id": first.directory_id,
            "node.id": first.node_id,
            "version": 1,
        }
        lines += [f"Found metadata: {{{', '.join(f'{k}={v}' for k, v in found.items())}}}", ""]
    return lines, problems


def _already_there(config: BrokerConfig, options: FormatOptions) -> dict[Path, MetaProperties | None]:
    """Return the properties of each log directory, None if it is new.

    Raises CannotFormat if a directory belongs to another node or cluster, or is formatted already and the
    options don't ignore that.
    """
    found = {directory: meta_properties.read(directory) for directory in config.log_dirs}
    for directory, properties in found.items():
        if properties is None:
            continue
        if properties.cluster_id != options.cluster_id or properties.node_id != config.node_id:
            raise CannotFormat(
                f"Log directory {directory} belongs to node {properties.node_id} of cluster "
                f"{properties.cluster_id}, expected node {config.node_id} of cluster {options.cluster_id}."
            )
        if not options.ignore_formatted:
            raise CannotFormat(
                f"Log directory {directory} is already formatted. "
                "Use --ignore-formatted to ignore this directory and format the others."
            )
    return found


def _kind(config: BrokerConfig, directory: Path, voters: VoterSet | None) -> str:
    if directory != config.metadata_log_dir:
        return "data directory"
    if voters is None:
        return "metadata directory"
    return "dynamic metadata " + ("voter directory" if voters.get(config.node_id) else "directory")


# The voters


def _initial_voters(config: BrokerConfig, options: FormatOptions) -> VoterSet | None:
    """The voters at the start of the metadata log; None if it does not contain them. Raises CannotFormat."""
    if sum((options.standalone, options.no_initial_controllers, options.initial_controllers is not None)) > 1:
        raise CannotFormat(
            "Only one of --standalone, --initial-controllers and --no-initial-controllers can be used."
        )
    wants_voters = options.standalone or options.initial_controllers is not None
    if config.quorum_voters and wants_voters:
        raise CannotFormat(
            "You cannot specify controller.quorum.voters and format the node with --initial-controllers or "
            "--standalone. If you want to use dynamic quorum, please remove controller.quorum.voters and "
            "specify controller.quorum.bootstrap.servers instead."
        )
    if options.standalone:
        return VoterSet([_this_voter(config)])
    if options.initial_controllers is not None:
        return parse_voters(options.initial_controllers, config.controller_listener_names[0])
    if config.is_controller and not config.quorum_voters and not options.no_initial_controllers:
        raise CannotFormat(
            "Because controller.quorum.voters is not set on this controller, you must specify one of the "
            "following: --standalone, --initial-controllers, or --no-initial-controllers."
        )
    return None


def _this_voter(config: BrokerConfig) -> Voter:
    if not config.is_controller:
        raise CannotFormat("You can only use --standalone on a controller.")
    endpoints = {
        listener.name: Address(listener.host or "localhost", listener.port)
        for listener in config.advertised_controller_listeners[:1]
    }
    if not endpoints:
        raise CannotFormat(
            "No controller listeners found: name one in listeners and controller.listener.names."
        )
    key = ReplicaKey(config.node_id, uuid_from_text(random_id()))
    return Voter(key, endpoints, 0, DYNAMIC)


def parse_voters(text: str, listener_name: str) -> VoterSet:
    """Parse the voters in ``id@host:port:directory,...``, all on one listener. Raises CannotFormat."""
    voters = []
    for item in text.split(","):
        match = _VOTER.fullmatch(item.strip())
        if match is None:
            raise CannotFormat(f"--initial-controllers: expected id@host:port:directory-id, found {item!r}")
        voter_id, v6, host, port, directory_id = match.groups()
        key = ReplicaKey(int(voter_id), uuid_from_text(directory_id))
        voters.append(Voter(key, {listener_name: Address(v6 or host, int(port))}, 0, DYNAMIC))
    ids = [voter.key.id for voter in voters]
    if len(set(ids)) < len(ids):
        raise CannotFormat(f"--initial-controllers: each id may appear only once, found {ids}")
    return VoterSet(voters)


# The features and the users


def _levels(config: BrokerConfig, options: FormatOptions) -> dict[str, int]:
    chosen = dict(options.features)
    if METADATA_VERSION in chosen and options.release_version is not None:
        raise CannotFormat(
            "Use --release-version instead of --feature metadata.version=X to avoid ambiguity."
        )
    is_dynamic = not config.quorum_voters
    kraft_version = chosen.get(KRAFT_VERSION, DYNAMIC if is_dynamic else 0)
    if (kraft_version > 0) != is_dynamic:
        raise CannotFormat(
            f"kraft.version cannot be {kraft_version} "
            f"{'without' if is_dynamic else 'with'} controller.quorum.voters: the configuration "
            "has the voters at level 0, the metadata log from 1 on. Omit --feature to use the right level."
        )
    try:
        if options.release_version is not None:
            level = release_level(options.release_version)
        else:
            level = chosen.pop(METADATA_VERSION, TARGET_METADATA_LEVEL)
            if level not in RELEASES:
                raise UnknownFeature(
                    f"No metadata.version with feature level {level}. Valid feature levels are from "
                    f"{min(RELEASES)} to {max(RELEASES)}."
                )
        return initial_features(level, chosen)
    except UnknownFeature as error:
        raise CannotFormat(str(error)) from None


def _credentials(options: FormatOptions, metadata_level: int) -> list[Message]:
    if options.add_scram and metadata_level < SCRAM_LEVEL:
        raise CannotFormat(f"SCRAM is only supported in {METADATA_VERSION} {RELEASES[SCRAM_LEVEL]} or later.")
    try:
        return list(scram_records(options.add_scram))
    except InvalidScram as error:
        raise CannotFormat(f"--add-scram: {error}") from None


# The files


def _snapshot(
    records: list[Message], metadata_level: int, now_ms: int, quorum: QuorumRecords | None
) -> bytes:
    content = encode_snapshot(
        records,
        epoch=0,
        metadata_version=metadata_level,
        last_timestamp_ms=now_ms if quorum else 0,
        now_ms=now_ms,
        quorum=quorum,
    )
    return b"".join(content)


def _write_first_snapshot(
    files: FileSystem, directory: Path, voters: VoterSet, metadata_level: int, now_ms: int
) -> None:
    log_directory = directory / f"{CLUSTER_METADATA_TOPIC}-0"
    files.mkdir(log_directory, exist_ok=True)
    quorum = QuorumRecords(DYNAMIC, voters.to_record())
    files.write_atomically(log_directory / file_name(0, 0), _snapshot([], metadata_level, now_ms, quorum))
