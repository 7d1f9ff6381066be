"""Spark's source and sink, streams applications and views on a secured cluster.

Each logs in by Kafka's client properties, as a user with exactly the permissions that docs/security.md names,
and leaves no password in a checkpoint, a plan, a log or an error.
"""

from __future__ import annotations

import contextlib
import io
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic
from stored_contents import contents_of

import penstock
from application_acls import acls_of
from penstock.client.errors import AuthenticationFailed
from penstock.spark.hosting import Host
from penstock.streams import App, string
from penstock.testing import Acl, Cluster, Security

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]

TIMEOUT_S = 30
PASSWORD = "hidden-4711"
RECORDS = 20
USERS = ("source", "group", "sink", "exactly", "batch", "app", "viewer", "host")
TOPICS = ("in", "out", "exact", "batched", "counts", "hosted", "host-commands")
ACLS: list[Acl] = [
    *acls_of("Spark source", "source", IN="in"),
    *acls_of("Spark source", "group", IN="in"),
    *acls_of("Spark source with `group.id`", "group", GROUP="readers"),
    *acls_of("Spark sink", "sink", OUT="out"),
    *acls_of("Spark source", "exactly", IN="in"),
    *acls_of("Spark sink, exactly once", "exactly", OUT="exact"),
    *acls_of("Spark source", "batch", IN="in"),
    *acls_of("Spark batch write, exactly once", "batch", OUT="batched"),
    *acls_of("streams application", "app", IN="in", OUT="counts", APP="shop"),
    *acls_of("views of a streams application", "viewer", APP="shop"),
    *acls_of("streams application", "host", IN="in", OUT="hosted", APP="hosted-app"),
    Acl("host", "read", topic="host-commands"),
]


def secured(**kind: Any) -> Security:
    users = dict.fromkeys(USERS, PASSWORD)
    return Security(users, ACLS, **kind)


@pytest.fixture(
    scope="module",
    params=[
        pytest.param({"protocol": "SASL_SSL"}, id="scram"),
        pytest.param({"protocol": "SSL"}, id="certificates", marks=pytest.mark.long),
    ],
)
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    with Cluster(security=secured(**request.param)) as cluster:
        made = cluster.admin_client().create_topics([NewTopic(name, 2, 1) for name in TOPICS])
        for topic in made.values():
            topic.result(TIMEOUT_S)
        producer = Producer(cluster.client_settings())
        for n in range(RECORDS):
            producer.produce("in", b"%d" % n, b"key")
        assert producer.flush(TIMEOUT_S) == 0
        yield cluster


def options_of(cluster: Cluster, user: str) -> dict[str, str]:
    """The options with which Spark logs in as a user, with keys and certificates in them instead of files."""
    options: dict[str, str] = cluster.client_settings(user, for_="spark")
    options["kafka.ssl.truststore.certificates"] = Path(
        options.pop("kafka.ssl.truststore.location")
    ).read_text()
    if "kafka.ssl.keystore.location" in options:
        store = Path(options.pop("kafka.ssl.keystore.location")).read_text()
        key, mark, chain = store.partition("-----BEGIN CERTIFICATE")
        options |= {"kafka.ssl.keystore.key": key, "kafka.ssl.keystore.certificate.chain": mark + chain}
    return options


def secrets_of(options: dict[str, str]) -> list[bytes]:
    """The texts that must not be found anywhere."""
    key = options.get("kafka.ssl.keystore.key")
    return [PASSWORD.encode()] if key is None else [line.encode() for line in key.splitlines()[1:-1]]


def values_in(cluster: Cluster, topic: str) -> list[str]:
    columns = {"columns": ["value"], "properties": cluster.client_settings(for_="java")}
    found = penstock.read(topic, cluster.bootstrap_servers, value_format="string", **columns).to_table()
    return sorted(found.column("value").to_pylist(), key=int)


def assert_no_secret(directory: Path, options: dict[str, str]) -> None:
    for file, content in contents_of(directory):
        for secret in secrets_of(options):
            assert secret not in content, file


EVERYTHING = [str(n) for n in range(RECORDS)]


def test_batches_read_and_write(cluster: Cluster, spark: SparkSession) -> None:
    read, written = options_of(cluster, "batch"), options_of(cluster, "sink")
    rows = spark.read.format("penstock").options(**read).option("subscribe", "in").load()
    values = rows.selectExpr("key", "value")
    values.write.format("penstock").options(**written).option("topic", "out").mode("append").save()
    exactly = values.write.format("penstock").options(**read).option("topic", "batched")
    exactly.option("delivery", "exactly-once").mode("append").save()
    assert values_in(cluster, "out") == values_in(cluster, "batched") == EVERYTHING
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        rows.explain("extended")
    assert "penstock" in shown.getvalue()
    assert not [secret for secret in secrets_of(read) if secret.decode() in shown.getvalue()]


def test_a_query_reads_and_writes_exactly_once(cluster: Cluster, spark: SparkSession, tmp_path: Path) -> None:
    options = options_of(cluster, "exactly")
    query = (
        spark.readStream.format("penstock")
        .options(**options)
        .option("subscribe", "in")
        .option("startingOffsets", "earliest")
        .load()
        .selectExpr("key", "value")
        .writeStream.format("penstock")
        .options(**options)
        .option("topic", "exact")
        .option("delivery", "exactly-once")
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert values_in(cluster, "exact") == EVERYTHING
    assert_no_secret(tmp_path, options)


@pytest.mark.long
def test_a_query_commits_for_its_group(cluster: Cluster, spark: SparkSession, tmp_path: Path) -> None:
    read, written = options_of(cluster, "group"), options_of(cluster, "sink")
    query = (
        spark.readStream.format("penstock")
        .options(**read)
        .option("subscribe", "in")
        .option("startingOffsets", "earliest")
        .option("kafka.group.id", "readers")
        .load()
        .selectExpr("key", "value")
        .writeStream.format("penstock")
        .options(**written)
        .option("topic", "out")
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert_no_secret(tmp_path, read)


def counting(name: str, target: str) -> App:
    app = App(name, key=string, value=string)
    app.stream("in").group_by_key().count(store="totals").to_stream().map_values(str).to(target)
    return app


def test_an_application_runs_and_its_views_answer(
    cluster: Cluster, spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options, app = options_of(cluster, "app"), counting("shop", "counts")
    del options["kafka.bootstrap.servers"]
    with caplog.at_level(logging.DEBUG, "penstock"):
        running = app.start(
            bootstrap_servers=cluster.bootstrap_servers,
            checkpoint=tmp_path,
            spark=spark,
            until="drained",
            options=options,
        )
        running.wait(TIMEOUT_S)
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown):
            running.query.explain(True)
    assert values_in(cluster, "counts")[-1] == str(RECORDS)
    properties = cluster.client_settings("viewer", for_="java")
    with app.views(bootstrap_servers=cluster.bootstrap_servers, properties=properties) as views:
        assert views.store("totals").get("key") == RECORDS  # type: ignore[attr-defined]
    assert_no_secret(tmp_path, options)
    logged = "".join(each.getMessage() for each in caplog.records if each.name.startswith("penstock"))
    said = shown.getvalue() + logged + repr(running) + str(running.progress())
    assert not [secret for secret in secrets_of(options) if secret.decode() in said]


@pytest.mark.long
def test_a_host_runs_members(cluster: Cluster, spark: SparkSession, tmp_path: Path) -> None:
    options = options_of(cluster, "host")
    del options["kafka.bootstrap.servers"]
    host = Host.start(
        "hosting",
        bootstrap_servers=cluster.bootstrap_servers,
        topic="host-commands",
        checkpoint=tmp_path,
        spark=spark,
        options=options,
    )
    with host:
        host.add("member", counting("hosted-app", "hosted").topology())
        host.wait_until_read()
        assert values_in(cluster, "hosted")[-1] == str(RECORDS)
        assert_no_secret(tmp_path, options)


def test_a_wrong_password_is_not_shown(cluster: Cluster, spark: SparkSession, tmp_path: Path) -> None:
    options = options_of(cluster, "source")
    if "kafka.sasl.jaas.config" not in options:
        pytest.skip("there is no password")
    options["kafka.sasl.jaas.config"] = options["kafka.sasl.jaas.config"].replace(PASSWORD, "wrong-0815")
    with pytest.raises(Exception, match="'source' is not authenticated by SCRAM-SHA-512") as caught:
        spark.read.format("penstock").options(**options).option("subscribe", "in").load().count()
    assert "wrong-0815" not in str(caught.value)
    properties = cluster.client_settings("source", for_="java") | {
        "sasl.jaas.config": options["kafka.sasl.jaas.config"]
    }
    with pytest.raises(AuthenticationFailed) as refused:
        penstock.read("in", cluster.bootstrap_servers, properties=properties).to_table()
    assert "wrong-0815" not in str(refused.value)
