"""SCRAM credentials on a node: altered and described, and kept over restarts and in snapshots."""

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path

from broker_wire import Wire
from penstock.broker.node import Broker
from penstock.broker.setup.storage_format import FormatOptions, format_storage
from penstock.metadata.configs import BrokerConfig
from penstock.metadata.controller.scram import alter_scram_credentials
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from penstock.security.scram import ScramCredential, ScramMechanism
from penstock.testing import Cluster

StartNode = Callable[..., Cluster]
SHA_256, SHA_512 = ScramMechanism
METADATA = "__cluster_metadata-0"


def setting(user: str, mechanism: ScramMechanism = SHA_256) -> AlterUserScramCredentialsRequest:
    upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
        name=user, mechanism=mechanism, iterations=4096, salt=b"salt", salted_password=b"salted password"
    )
    return AlterUserScramCredentialsRequest(upsertions=[upsertion])


def deleting(user: str, mechanism: ScramMechanism = SHA_256) -> AlterUserScramCredentialsRequest:
    deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion(name=user, mechanism=mechanism)
    return AlterUserScramCredentialsRequest(deletions=[deletion])


def alter(wire: Wire, request: AlterUserScramCredentialsRequest) -> list[int]:
    return [result.error_code for result in wire.ask(request, AlterUserScramCredentialsResponse).results]


def describe(wire: Wire, *users: str) -> list[tuple[str, int, list[tuple[int, int]]]]:
    """The user, the error code, and mechanism and iterations of each credential."""
    asked = [DescribeUserScramCredentialsRequest.UserName(name=user) for user in users]
    request = DescribeUserScramCredentialsRequest(users=asked or None)
    response = wire.ask(request, DescribeUserScramCredentialsResponse)
    assert (response.error_code, response.error_message) == (0, "")
    return [
        (each.user, each.error_code, [(info.mechanism, info.iterations) for info in each.credential_infos])
        for each in response.results
    ]


def test_credentials_are_described_and_kept_over_a_restart(start_node: StartNode) -> None:
    node = start_node()
    with Wire(node.bootstrap_servers) as wire:
        assert describe(wire) == []
        for request in (setting("bert"), setting("bert", SHA_512), setting("ann", SHA_512)):
            assert alter(wire, request) == [0]
        assert describe(wire) == [("ann", 0, [(2, 4096)]), ("bert", 0, [(1, 4096), (2, 4096)])]
        assert alter(wire, deleting("bert", SHA_512)) == [0]
        assert alter(wire, deleting("bert", SHA_512)) == [ErrorCode.RESOURCE_NOT_FOUND]
        assert alter(wire, AlterUserScramCredentialsRequest()) == []
    node.stop()
    node.start()
    with Wire(node.bootstrap_servers) as wire:
        assert describe(wire, "bert", "nobody", "ann", "ann") == [
            ("bert", 0, [(1, 4096)]),
            ("nobody", ErrorCode.RESOURCE_NOT_FOUND, []),
            ("ann", ErrorCode.DUPLICATE_RESOURCE, []),
        ]


def test_a_broker_forwards_changes_and_a_controller_describes_them() -> None:
    with Cluster(controllers=1) as cluster, Wire(cluster.bootstrap_controllers) as controller:
        with Wire(cluster.bootstrap_servers) as wire:
            assert alter(wire, setting("ann")) == [0]
        assert describe(controller) == [("ann", 0, [(1, 4096)])]
        assert alter(controller, deleting("ann")) == [0]
        assert describe(controller) == []


def test_credentials_are_in_snapshots(tmp_path: Path) -> None:
    """The log before the snapshot is removed, so that only the snapshot has them at the next start."""
    properties = {
        "log.dirs": str(tmp_path),
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "metadata.log.max.record.bytes.between.snapshots": "500",
    }

    async def kept_after(*requests: AlterUserScramCredentialsRequest) -> list[ScramCredential | None]:
        broker = Broker(BrokerConfig.single_node(properties))
        try:
            await broker.start()
            for request in requests:
                decide = partial(alter_scram_credentials, request=request)
                await broker.controller.submit_and_follow(decide)
            return [broker.image.scram.credential(SHA_256, f"user{number}") for number in range(20)]
        finally:
            await broker.stop()

    before = asyncio.run(kept_after(*(setting(f"user{number}") for number in range(20)), deleting("user3")))
    assert [number for number, kept in enumerate(before) if kept is None] == [3]
    assert list((tmp_path / METADATA).glob("*.checkpoint"))
    for path in (tmp_path / METADATA).iterdir():
        if path.suffix in (".log", ".index", ".timeindex") or path.name == "leader-epoch-checkpoint":
            path.unlink()
    after = asyncio.run(kept_after())
    in_snapshot = [number for number, kept in enumerate(after) if kept is not None]
    assert len(in_snapshot) > 5
    assert all(after[number] == before[number] for number in in_snapshot if number != 3)


def test_a_formatted_node_starts_with_its_first_users(tmp_path: Path) -> None:
    config = BrokerConfig.single_node(
        {
            "log.dirs": str(tmp_path),
            "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
            "controller.quorum.bootstrap.servers": "127.0.0.1:1",
        }
    )
    options = FormatOptions(
        "cluster", standalone=True, add_scram=["SCRAM-SHA-256=[name=ann,password=pencil,iterations=8192]"]
    )
    assert list(format_storage(config, options, now_ms=0))

    async def first_users() -> list[str]:
        broker = Broker(config)
        try:
            await broker.start()
            return broker.image.scram.users()
        finally:
            await broker.stop()

    assert asyncio.run(first_users()) == ["ann"]
