"""A broker's configuration, from its properties, dynamic configs and defaults.

A value comes from the first of four places that sets it: dynamic configs of this broker, dynamic defaults of
the cluster, the static properties, the reference. `BrokerConfig` is immutable; a dynamic change creates a new
one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Final

from penstock.metadata.configs.cleaner import check_cleaner_memory
from penstock.metadata.configs.cordoned import CORDONED_LOG_DIRS, cordoned_paths
from penstock.metadata.configs.definition import (
    ConfigKey,
    ConfigValue,
    InvalidConfig,
    UpdateMode,
    invalid,
)
from penstock.metadata.configs.listeners import (
    ANY_ADDRESS,
    Address,
    Listener,
    Voter,
    check_advertised,
    parse_addresses,
    parse_listeners,
    parse_protocol_map,
    parse_voters,
)
from penstock.metadata.configs.reference import BROKER_KEYS, belongs_to_plugin, broker_key, unknown_key
from penstock.metadata.configs.roles import check_roles
from penstock.metadata.configs.support import refuse_unsupported
from penstock.security.config_providers import InvalidVariable, resolve

_PROTOCOL_MAP: Final = "listener.security.protocol.map"

SHIPPED_PROPERTIES: Final[Mapping[str, str]] = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listeners": "PLAINTEXT://127.0.0.1:9092",
    "listener.security.protocol.map": (
        "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL"
    ),
    "inter.broker.listener.name": "PLAINTEXT",
    "num.network.threads": "3",
    "num.io.threads": "8",
    "socket.send.buffer.bytes": "102400",
    "socket.receive.buffer.bytes": "102400",
    "socket.request.max.bytes": "104857600",
    "num.partitions": "1",
    "num.recovery.threads.per.data.dir": "1",
    "offsets.topic.replication.factor": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "log.retention.hours": "168",
    "log.segment.bytes": "1073741824",
    "log.retention.check.interval.ms": "300000",
}
"""The settings of Kafka's own config/server.properties for a single node, used if no file is given.

There are three differences: the listener is on loopback, log.dirs comes from the command line, and no
controller port is opened, because a quorum of one has no other member that could connect.
"""


class BrokerConfig(Mapping[str, ConfigValue]):
    """The typed values under Kafka's names: ``config["log.retention.hours"]``, or ``get_int`` and similar.

    A name with a listener prefix falls back to the plain name. Raises KeyError for an unknown name.
    """

    def __init__(
        self,
        static: Mapping[str, str],
        dynamic_default: Mapping[str, str] | None = None,
        dynamic_broker: Mapping[str, str] | None = None,
    ) -> None:
        self.static = dict(static)
        self.dynamic_default = dict(dynamic_default or {})
        self.dynamic_broker = dict(dynamic_broker or {})
        self._values: dict[str, ConfigValue] = {}

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> BrokerConfig:
        """Create a config and check every key and value.

        Raises InvalidConfig with the key, the value found and the value expected.
        """
        try:
            properties = resolve(properties)
        except InvalidVariable as error:
            raise InvalidConfig(error.name, str(error)) from None
        for name, text in properties.items():
            check_static(name, text)
        for key in BROKER_KEYS.values():
            if key.required and key.name not in properties and not _stands_for(key, properties):
                raise InvalidConfig(key.name, f"Missing required config {key.name}: {key.doc}")
        config = cls(_with_node_id(properties))
        refuse_unsupported(config)
        check_roles(config)
        check_cleaner_memory(config)
        config.check_listeners()
        _ = config.cordoned_log_dirs
        _ = config.super_users
        return config

    @classmethod
    def single_node(cls, properties: Mapping[str, str]) -> BrokerConfig:
        """Configure one node like Kafka's server.properties does, with ``properties`` on top."""
        return cls.from_properties({**SHIPPED_PROPERTIES, **properties})

    def with_dynamic(self, default: Mapping[str, str], broker: Mapping[str, str]) -> BrokerConfig:
        """The same node with other dynamic configs: the cluster's defaults and this broker's own."""
        return BrokerConfig(self.static, default, broker)

    def __getitem__(self, name: str) -> ConfigValue:
        try:
            return self._values[name]
        except KeyError:
            self._values[name] = value = self._resolve(name)
            return value

    def __iter__(self) -> Iterator[str]:
        return iter(BROKER_KEYS)

    def __len__(self) -> int:
        return len(BROKER_KEYS)

    def _resolve(self, name: str) -> ConfigValue:
        key = broker_key(name)
        if key is None:
            raise KeyError(name)
        for candidate in dict.fromkeys((name, key.name)):
            text = self.text(candidate)
            if text is not None:
                return key.parse(text)
        return None if key.default is None else key.parse(key.default)

    def text(self, name: str) -> str | None:
        """The text set for exactly this name, dynamic before static; None if only the default applies."""
        key = broker_key(name)
        if key is None or key.update_mode is not UpdateMode.READ_ONLY:
            for layer in (self.dynamic_broker, self.dynamic_default):
                if name in layer:
                    return layer[name]
        return self.static.get(name)

    def get_int(self, name: str) -> int:
        value = self[name]
        assert isinstance(value, int), f"{name} is {value!r}"
        return value

    def get_float(self, name: str) -> float:
        value = self[name]
        assert isinstance(value, int | float), f"{name} is {value!r}"
        return float(value)

    def get_bool(self, name: str) -> bool:
        value = self[name]
        assert isinstance(value, bool), f"{name} is {value!r}"
        return value

    def get_str(self, name: str) -> str:
        value = self[name]
        assert isinstance(value, str), f"{name} is {value!r}"
        return value

    def get_list(self, name: str) -> list[str]:
        value = self[name]
        assert isinstance(value, list), f"{name} is {value!r}"
        return value

    @property
    def node_id(self) -> int:
        return self.get_int("node.id")

    @property
    def rack(self) -> str | None:
        rack = self["broker.rack"]
        return rack if isinstance(rack, str) else None

    @property
    def has_authorizer(self) -> bool:
        """Whether requests are authorized by ACLs; otherwise everything is allowed."""
        return bool(self.get_str("authorizer.class.name"))

    @cached_property
    def super_users(self) -> frozenset[str]:
        """The principals that may do everything. Raises InvalidConfig for one without a type."""
        users = [user.strip() for user in self.get_str("super.users").split(";")]
        for user in users:
            if user and not user.partition(":")[2]:
                raise invalid("super.users", user, "expected a type and a name, such as User:admin")
        return frozenset(filter(None, users))

    @property
    def allows_without_acl(self) -> bool:
        """Whether everything is allowed on a resource that has no ACL."""
        return self.get_bool("allow.everyone.if.no.acl.found")

    @cached_property
    def listeners(self) -> list[Listener]:
        """All listeners, including those of controllers."""
        return parse_listeners("listeners", self.get_list("listeners"), self._protocols)

    @cached_property
    def is_broker(self) -> bool:
        return "broker" in self.get_list("process.roles")

    @cached_property
    def is_controller(self) -> bool:
        return "controller" in self.get_list("process.roles")

    @cached_property
    def _protocols(self) -> dict[str, str]:
        """The security protocol per listener name; controllers default to PLAINTEXT if the map is not set."""
        protocols = parse_protocol_map(_PROTOCOL_MAP, self.get_str(_PROTOCOL_MAP))
        if _PROTOCOL_MAP not in self.static:
            for name in self.controller_listener_names:
                protocols.setdefault(name, "PLAINTEXT")
        return protocols

    def security_protocol(self, listener_name: str) -> str | None:
        """The security protocol of a listener of this or another node; None if the map has no such name."""
        return self._protocols.get(listener_name)

    @cached_property
    def controller_listener_names(self) -> list[str]:
        """The names of the listeners on which controllers serve; nodes connect to the first one."""
        return [name.upper() for name in self.get_list("controller.listener.names")]

    @cached_property
    def controller_listeners(self) -> list[Listener]:
        """The listeners of this node for other nodes and for administrators of the quorum."""
        return [listener for listener in self.listeners if listener.name in self.controller_listener_names]

    @cached_property
    def advertised_controller_listeners(self) -> list[Listener]:
        """The addresses of this controller by listener: as advertised, else as in the static voters."""
        uris = self["advertised.listeners"]
        advertised = {
            listener.name: listener
            for listener in parse_listeners(
                "advertised.listeners", uris if isinstance(uris, list) else [], self._protocols
            )
        }
        return [
            advertised.get(listener.name) or self._as_voter(listener)
            for listener in self.controller_listeners
        ]

    def _as_voter(self, listener: Listener) -> Listener:
        """The address that static voters use, for a default listener bound to every interface."""
        if listener.host in ANY_ADDRESS and listener.name == self.controller_listener_names[0]:
            for voter in self.quorum_voters:
                if voter.node_id == self.node_id:
                    return listener._replace(host=voter.host, port=voter.port)
        return listener._replace(host="") if listener.host in ANY_ADDRESS else listener

    @cached_property
    def broker_listeners(self) -> list[Listener]:
        """The listeners that clients and brokers connect to; a broker has at least one."""
        return [
            listener for listener in self.listeners if listener.name not in self.controller_listener_names
        ]

    @cached_property
    def advertised_listeners(self) -> list[Listener]:
        """The listeners announced to clients; an empty host or port 0 is filled in after binding."""
        uris = self["advertised.listeners"]
        if not isinstance(uris, list):
            return self.broker_listeners
        listeners = parse_listeners("advertised.listeners", uris, self._protocols)
        return [listener for listener in listeners if listener.name not in self.controller_listener_names]

    @cached_property
    def inter_broker_listener_name(self) -> str:
        name = self["inter.broker.listener.name"]
        return name if isinstance(name, str) else self.get_str("security.inter.broker.protocol")

    @cached_property
    def log_dirs(self) -> list[Path]:
        """The log directories, in the configured order."""
        dirs = self["log.dirs"]
        return [Path(item) for item in (dirs if isinstance(dirs, list) else self.get_list("log.dir"))]

    @property
    def cordoned_log_dirs(self) -> list[Path]:
        """The log directories that take no new replicas. Raises InvalidConfig if one is not in `log_dirs`."""
        return cordoned_paths(self.get_list(CORDONED_LOG_DIRS), self.log_dirs)

    @property
    def metadata_log_dir(self) -> Path:
        directory = self["metadata.log.dir"]
        return Path(directory) if isinstance(directory, str) else self.log_dirs[0]

    @cached_property
    def quorum_voters(self) -> list[Voter]:
        return parse_voters(self.get_list("controller.quorum.voters"))

    @cached_property
    def quorum_bootstrap_servers(self) -> list[Address]:
        """The addresses at which this node searches for the quorum."""
        return parse_addresses(self.get_list("controller.quorum.bootstrap.servers"))

    @cached_property
    def is_quorum_of_one(self) -> bool:
        """Whether this node is both broker and controller, and its settings name no other controller."""
        ports = {listener.port for listener in self.controller_listeners}
        return (
            self.is_broker
            and self.is_controller
            and all(voter.node_id == self.node_id for voter in self.quorum_voters)
            and len(self.quorum_bootstrap_servers) <= 1
            and all(server.port in ports for server in self.quorum_bootstrap_servers)
        )

    def check_listeners(self) -> None:
        """Check that listeners, advertised listeners and listener names fit together.

        Raises InvalidConfig.
        """
        check_advertised("advertised.listeners", self.advertised_controller_listeners)
        if not self.is_broker:
            return
        names = [listener.name for listener in self.broker_listeners]
        if not names:
            raise InvalidConfig(
                "listeners", "listeners: at least one must not be in controller.listener.names"
            )
        check_advertised("advertised.listeners", self.advertised_listeners)
        for listener in self.advertised_listeners:
            if listener.name not in names:
                raise InvalidConfig(
                    "advertised.listeners",
                    f"advertised.listeners: {listener.name} is not one of the names in listeners "
                    f"({', '.join(names)})",
                )
        if self.inter_broker_listener_name not in names:
            raise InvalidConfig(
                "inter.broker.listener.name",
                f"inter.broker.listener.name: {self.inter_broker_listener_name} must be one of the "
                f"advertised listeners ({', '.join(names)})",
            )


def check_static(name: str, text: str) -> None:
    """Check one property of a file or the command line. Raises InvalidConfig if it is unknown or invalid."""
    key = broker_key(name)
    if key is not None:
        key.parse(text)
    elif not belongs_to_plugin(name):
        raise unknown_key(name, BROKER_KEYS)


def _stands_for(key: ConfigKey, properties: Mapping[str, str]) -> bool:
    return key.name == "node.id" and "broker.id" in properties


def _with_node_id(properties: Mapping[str, str]) -> dict[str, str]:
    """Set both ``node.id`` and its older name ``broker.id``, which must agree."""
    node_id = properties.get("node.id", properties.get("broker.id", ""))
    if properties.get("broker.id", node_id).strip() != node_id.strip():
        raise InvalidConfig("broker.id", "You must set `node.id` to the same value as `broker.id`.")
    return {**properties, "node.id": node_id.strip(), "broker.id": node_id.strip()}
