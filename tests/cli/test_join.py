"""A node that joins a cluster from the command line: its configuration, and errors for wrong options."""

import pytest

from kafka_node import free_port
from penstock.cli.join import CannotJoin, ask_cluster_id, check_words, cluster_properties
from penstock.metadata.configs import BrokerConfig
from penstock.testing import Cluster


def test_the_first_node_knows_itself() -> None:
    found = cluster_properties(1, "127.0.0.1:9092", "127.0.0.1:9192", None)
    assert found["process.roles"] == "broker,controller"
    assert found["listeners"] == "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9192"
    assert found["controller.quorum.bootstrap.servers"] == "127.0.0.1:9192"
    assert "controller.quorum.auto.join.enable" not in found
    assert BrokerConfig.from_properties({**found, "log.dirs": "/tmp/none"}).node_id == 1


def test_others_ask_for_a_vote_and_know_themselves_too() -> None:
    found = cluster_properties(2, "127.0.0.1:9093", "127.0.0.1:9193", "127.0.0.1:9192, 127.0.0.1:9193")
    assert found["controller.quorum.bootstrap.servers"] == "127.0.0.1:9192,127.0.0.1:9193"
    assert found["controller.quorum.auto.join.enable"] == "true"
    assert BrokerConfig.from_properties({**found, "log.dirs": "/tmp/none"}).is_controller


def test_without_an_address_for_controllers_it_is_a_broker_only() -> None:
    found = cluster_properties(4, "127.0.0.1:9095", None, "127.0.0.1:9192")
    assert found["process.roles"] == "broker"
    assert found["listeners"] == "PLAINTEXT://127.0.0.1:9095"
    config = BrokerConfig.from_properties({**found, "log.dirs": "/tmp/none"})
    assert not config.is_controller


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ((3, None, None, {}), "--node-id needs --controller or --join"),
        ((None, "a:1", None, {}), "need --node-id"),
        ((None, None, "a:1", {}), "need --node-id"),
        ((3, "a:1", None, {"--config": "x"}), "--config already defines the node"),
    ],
)
def test_words_that_do_not_go_together(words, complaint) -> None:
    with pytest.raises(ValueError, match=complaint):
        check_words(*words)


def test_words_that_do() -> None:
    check_words(None, None, None, {"--config": "x"})
    check_words(3, "a:1", "b:1", {"--config": None})


def test_who_is_not_there_is_named() -> None:
    nobody = f"127.0.0.1:{free_port()}"
    with pytest.raises(CannotJoin, match=f"no controller answers: cannot connect to {nobody}"):
        ask_cluster_id(nobody, wait_s=0)
    with pytest.raises(CannotJoin, match=r"--join nonsense: .*expected host:port"):
        ask_cluster_id("nonsense")


def test_a_brokers_address_is_no_controllers(penstock_cluster: Cluster) -> None:
    at = penstock_cluster.bootstrap_servers
    with pytest.raises(CannotJoin, match=f"{at} is no controller: The request was sent to"):
        ask_cluster_id(at, wait_s=0)
