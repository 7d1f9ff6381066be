"""A node that is a controller only: it has dynamic configs and log levels of its own, like a broker."""

import asyncio
from pathlib import Path
from typing import Any

from test_foreign_cluster import HERE, free_port, node

from penstock.broker.api_table import ListenerType, bound
from penstock.broker.network.context import RequestContext
from penstock.protocol.api_keys import ApiKey
from penstock.protocol.errors import ErrorCode
from penstock.protocol.messages import IncrementalAlterConfigsRequest
from penstock.security.permissions import UNRESTRICTED
from waiting import until

TOPIC, BROKER, BROKER_LOGGER = 2, 4, 8
LOGGER = "penstock.broker.control.controller"


def resource(type_: int, name: str, config: str, value: str) -> Any:
    change = IncrementalAlterConfigsRequest.AlterableConfig(name=config, config_operation=0, value=value)
    return IncrementalAlterConfigsRequest.AlterConfigsResource(
        resource_type=type_, resource_name=name, configs=[change]
    )


def test_a_controller_obeys_configs_of_its_own_and_of_all(tmp_path: Path) -> None:
    async def scenario() -> None:
        port = free_port()
        voters = {"controller.quorum.voters": f"1@127.0.0.1:{port}"}
        controller = node(tmp_path / "data", HERE, "controller", f"CONTROLLER://127.0.0.1:{port}", **voters)
        await controller.start()
        served = bound(controller, ListenerType.CONTROLLER)[ApiKey.INCREMENTAL_ALTER_CONFIGS]
        context = RequestContext(1, "test", "127.0.0.1", "User:a", "CONTROLLER", UNRESTRICTED)
        try:
            await until(lambda: controller.controller.is_active)
            asked = [
                resource(BROKER_LOGGER, "1", LOGGER, "INFO"),
                resource(BROKER, "1", "max.connections", "70"),
                resource(BROKER_LOGGER, "2", LOGGER, "INFO"),
                resource(BROKER, "", "max.connections.per.ip", "60"),
                resource(TOPIC, "nobody", "retention.ms", "1"),
            ]
            response: Any = await served.handle(
                served.part, IncrementalAlterConfigsRequest(resources=asked), context
            )  # type: ignore[misc]
            outcomes = {(r.resource_type, r.resource_name): r.error_code for r in response.responses}
            assert outcomes == {
                (BROKER_LOGGER, "1"): ErrorCode.NONE,
                (BROKER, "1"): ErrorCode.NONE,
                (BROKER_LOGGER, "2"): ErrorCode.INVALID_REQUEST,
                (BROKER, ""): ErrorCode.NONE,
                (TOPIC, "nobody"): ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            }
            assert controller.config.get_int("max.connections") == 70
            assert controller.server.limits.connections.max_connections_per_ip == 60
        finally:
            await controller.stop()

    asyncio.run(asyncio.wait_for(scenario(), 60))
