"""A broker's configuration: properties, dynamic changes, listeners, and rejected settings."""

from pathlib import Path

import pytest

from penstock.metadata.configs import SHIPPED_PROPERTIES, BrokerConfig, InvalidConfig, Listener, topic_config

CONTROLLER = "CONTROLLER://h:2"


def single_node(**properties: str) -> BrokerConfig:
    """The configuration of a single node; names have underscores for dots."""
    return BrokerConfig.single_node({key.replace("_", "."): value for key, value in properties.items()})


def refusal(**properties: str) -> InvalidConfig:
    with pytest.raises(InvalidConfig) as refused:
        single_node(**properties)
    return refused.value


def test_a_single_node_has_kafkas_shipped_overrides() -> None:
    config = single_node(log_dirs="/a, /b")
    assert config.node_id == 1
    assert config.get_int("offsets.topic.replication.factor") == 1
    assert config.get_int("offsets.topic.num.partitions") == 50
    assert config.log_dirs == [Path("/a"), Path("/b")]
    assert config.metadata_log_dir == Path("/a")
    assert config.listeners == [Listener("PLAINTEXT", "127.0.0.1", 9092, "PLAINTEXT")]
    assert config.static["num.partitions"] == SHIPPED_PROPERTIES["num.partitions"]


def test_unknown_names_are_errors_that_suggest_the_nearest() -> None:
    error = refusal(log_retentoin_ms="5")
    assert error.key == "log.retentoin.ms"
    assert str(error) == "Unknown config log.retentoin.ms; did you mean log.retention.ms?"
    assert str(refusal(completely_different="5")) == "Unknown config completely.different"
    assert refusal(penstock_unheard_of="1").key == "penstock.unheard.of"


def test_plugins_may_have_names_of_their_own() -> None:
    assert single_node(rsm_config_bucket="b").static["rsm.config.bucket"] == "b"


def test_a_wrong_value_says_what_was_found_and_expected() -> None:
    error = refusal(num_partitions="0")
    assert str(error) == "Invalid value 0 for configuration num.partitions: Value must be at least 1"


def test_required_configs_must_be_there() -> None:
    with pytest.raises(InvalidConfig, match="Missing required config"):
        BrokerConfig.from_properties({"node.id": "1"})
    without_node_id = {key: value for key, value in SHIPPED_PROPERTIES.items() if key != "node.id"}
    assert BrokerConfig.from_properties({**without_node_id, "broker.id": "7"}).node_id == 7
    assert refusal(broker_id="7").key == "broker.id"


@pytest.mark.parametrize(
    ("properties", "key"),
    [
        ({"listeners": "nonsense"}, "listeners"),
        ({"listeners": "PLAINTEXT://h:70000"}, "listeners"),
        ({"listeners": "OTHER://h:1"}, "listeners"),
        ({"listeners": "PLAINTEXT://h:1,PLAINTEXT://h:2"}, "listeners"),
        ({"listeners": "CONTROLLER://h:1"}, "listeners"),
        ({"advertised_listeners": "CLIENTS://h:1"}, "advertised.listeners"),
        ({"advertised_listeners": "SSL://h:1"}, "advertised.listeners"),
        ({"advertised_listeners": "PLAINTEXT://0.0.0.0:1"}, "advertised.listeners"),
        ({"inter_broker_listener_name": "SSL"}, "inter.broker.listener.name"),
        ({"listener_security_protocol_map": "PLAINTEXT"}, "listener.security.protocol.map"),
        ({"controller_quorum_voters": "1@h:1,2@h:2"}, "controller.listener.names"),
        ({"controller_quorum_voters": "1@h"}, "controller.quorum.voters"),
        ({"controller_quorum_voters": "2@h:1"}, "controller.quorum.voters"),
        ({"controller_quorum_bootstrap_servers": "h"}, "controller.quorum.bootstrap.servers"),
        ({"process_roles": "broker"}, "controller.quorum.bootstrap.servers"),
        ({"process_roles": "broker", "controller_quorum_voters": "1@h:1"}, "controller.quorum.voters"),
        ({"process_roles": "controller"}, "controller.listener.names"),
        ({"process_roles": "controller", "listeners": f"PLAINTEXT://h:1,{CONTROLLER}"}, "listeners"),
        (
            {"process_roles": "broker", "listeners": f"PLAINTEXT://h:1,{CONTROLLER}"},
            "controller.listener.names",
        ),
        ({"controller_quorum_bootstrap_servers": "h:1,i:1"}, "controller.listener.names"),
        (
            {"process_roles": "broker", "controller_quorum_auto_join_enable": "true"},
            "controller.quorum.auto.join.enable",
        ),
        ({"authorizer_class_name": "x.Y"}, "authorizer.class.name"),
        ({"remote_log_storage_system_enable": "true"}, "remote.log.storage.system.enable"),
        ({"metadata_log_dir": "/elsewhere"}, "metadata.log.dir"),
        ({"log_dirs": ""}, "log.dirs"),
    ],
)
def test_what_cannot_be_honoured_is_refused(properties: dict[str, str], key: str) -> None:
    assert refusal(**properties).key == key


def test_a_node_may_be_a_controller_only() -> None:
    config = single_node(
        process_roles="controller",
        node_id="3",
        listeners="CONTROLLER://:9093",
        controller_quorum_voters="1@a:9093,3@c:9093",
    )
    assert (config.is_broker, config.is_controller, config.is_quorum_of_one) == (False, True, False)
    assert [str(listener) for listener in config.advertised_controller_listeners] == ["CONTROLLER://c:9093"]


def test_a_node_may_be_a_broker_only() -> None:
    config = single_node(process_roles="broker", controller_quorum_bootstrap_servers="a:9093,[::1]:9094")
    assert (config.is_broker, config.is_controller, config.is_quorum_of_one) == (True, False, False)
    assert [str(server) for server in config.quorum_bootstrap_servers] == ["a:9093", "[::1]:9094"]


def test_kafkas_own_properties_for_one_node_make_a_quorum_of_one() -> None:
    config = single_node(
        listeners="PLAINTEXT://:9092,CONTROLLER://:9093",
        controller_quorum_bootstrap_servers="localhost:9093",
    )
    assert config.is_quorum_of_one
    assert not single_node(
        listeners="PLAINTEXT://:9092,CONTROLLER://:9093",
        controller_quorum_bootstrap_servers="localhost:9093,localhost:9193",
    ).is_quorum_of_one


def test_controllers_listeners_are_not_for_clients() -> None:
    config = single_node(
        listeners="PLAINTEXT://:9092,CONTROLLER://:9093,EDGE://[::1]:9094",
        advertised_listeners="EDGE://edge.example:9094,PLAINTEXT://a:9092,CONTROLLER://a:9093",
        listener_security_protocol_map="CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,EDGE:plaintext",
        controller_quorum_voters="1@localhost:9093",
    )
    assert [listener.name for listener in config.broker_listeners] == ["PLAINTEXT", "EDGE"]
    assert [str(listener) for listener in config.advertised_listeners] == [
        "EDGE://edge.example:9094",
        "PLAINTEXT://a:9092",
    ]
    assert config.broker_listeners[1].host == "::1"
    assert config.quorum_voters[0].port == 9093


def test_dynamic_values_win_where_they_may() -> None:
    static = single_node(log_retention_ms="1", num_partitions="2")
    config = static.with_dynamic(
        {"log.retention.ms": "2", "max.connections": "20", "num.partitions": "9"}, {"max.connections": "10"}
    )
    assert config.get_int("log.retention.ms") == 2
    assert config.get_int("max.connections") == 10
    assert config.get_int("num.partitions") == 2, "not dynamic"
    assert static.get_int("log.retention.ms") == 1


def test_a_listeners_own_value_falls_back_to_the_plain_one() -> None:
    config = single_node(max_connections="7", listener_name_edge_max_connections="3")
    assert config["listener.name.edge.max.connections"] == 3
    assert config["listener.name.other.max.connections"] == 7
    with pytest.raises(KeyError):
        config["no.such.config"]


@pytest.mark.parametrize(
    ("properties", "retention_ms"),
    [
        ({}, 168 * 3_600_000),
        ({"log_retention_hours": "2"}, 7_200_000),
        ({"log_retention_hours": "2", "log_retention_minutes": "3"}, 180_000),
        ({"log_retention_hours": "-1"}, -1),
        ({"log_retention_hours": "2", "log_retention_minutes": "3", "log_retention_ms": "4"}, 4),
    ],
)
def test_topics_inherit_the_nearest_unit(properties: dict[str, str], retention_ms: int) -> None:
    assert topic_config(single_node(**properties), {})["retention.ms"] == retention_ms


def test_a_topics_own_configs_win() -> None:
    values = topic_config(single_node(), {"retention.ms": "5", "internal.segment.bytes": "99"})
    assert values["retention.ms"] == 5
    assert values["segment.bytes"] == 99
    assert values["cleanup.policy"] == ["delete"]


def test_cordoned_directories_are_some_of_the_log_directories() -> None:
    def cordoned(value: str) -> list[str]:
        properties = {"log.dirs": "/a,/b", "cordoned.log.dirs": value}
        return [str(path) for path in BrokerConfig.single_node(properties).cordoned_log_dirs]

    assert cordoned("") == []
    assert cordoned("/b") == ["/b"]
    assert cordoned("*") == ["/a", "/b"]
    for value, words in (
        ("/c", "Invalid entry in cordoned.log.dirs: /c"),
        ("*,/a", "must not contain other"),
    ):
        with pytest.raises(InvalidConfig, match=words):
            cordoned(value)
