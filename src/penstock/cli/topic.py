"""`penstock topic`: create, list, describe, alter and delete topics."""

from concurrent.futures import Future
from functools import partial
from typing import Annotated, TypeVar

import typer
from confluent_kafka import KafkaError, Node, TopicCollection
from confluent_kafka.admin import (
    AdminClient,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    TopicDescription,
)

from penstock.cli.config import parse_assignments, set_topic_configs
from penstock.cli.connection import (
    DEFAULT_BOOTSTRAP,
    EXIT_USAGE,
    REQUEST_TIMEOUT_S,
    Bootstrap,
    CommandConfig,
    JsonOutput,
    admin_client,
    fail,
    reported_errors,
    result_of,
)
from penstock.cli.output import Json, console, print_json, print_table
from penstock.cli.partitions import PartitionKey, is_internal, list_offsets
from penstock.cli.similar_names import topics_like

app = typer.Typer(help="Create, list, describe, alter and delete topics.", no_args_is_help=True)

T = TypeVar("T")

Names = Annotated[list[str], typer.Argument(metavar="TOPIC", help="Topic names.")]
Settings = Annotated[
    list[str] | None,
    typer.Option("--config", "-c", metavar="NAME=VALUE", help="Set a topic configuration; repeatable."),
]


@app.command()
def create(
    topics: Names,
    partitions: Annotated[
        int | None,
        typer.Option(
            "--partitions", "-p", metavar="N", min=1, help="The number of partitions. Default: the broker's."
        ),
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option(
            "--replication-factor",
            "-r",
            metavar="N",
            min=1,
            help="The number of replicas of each partition. Default: the broker's.",
        ),
    ] = None,
    config: Settings = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Don't fail if a topic exists.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    json_output: JsonOutput = False,
) -> None:
    """Create topics."""
    new_topics = [
        NewTopic(
            name,
            num_partitions=partitions or -1,
            replication_factor=replication_factor or -1,
            config=parse_assignments(config or []),
        )
        for name in topics
    ]
    # Keep a reference: results are lost if the client is collected early.
    client = admin_client(bootstrap, command_config)
    futures = client.create_topics(new_topics, request_timeout=REQUEST_TIMEOUT_S)
    created: list[Json] = []
    for name, future in futures.items():
        error = future.exception(REQUEST_TIMEOUT_S + 5)
        exists = error is not None and error.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
        if not (exists and if_not_exists):
            result_of(future, bootstrap, f"topic {name!r}")
        created.append({"topic": name, "created": not exists})
        if not json_output:
            console().print(f"{'exists' if exists else 'created'} {name}")
    if json_output:
        print_json(created)


@app.command("list")
def list_topics(
    internal: Annotated[bool, typer.Option("--internal", help="Include Kafka's own topics.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    json_output: JsonOutput = False,
) -> None:
    """List topics with their partition counts."""
    client = admin_client(bootstrap, command_config)
    with reported_errors(bootstrap):
        metadata = client.list_topics(timeout=REQUEST_TIMEOUT_S)
    rows = [
        (name, len(topic.partitions), max((len(p.replicas) for p in topic.partitions.values()), default=0))
        for name, topic in sorted(metadata.topics.items())
        if internal or not is_internal(name)
    ]
    if json_output:
        print_json([{"topic": n, "partitions": p, "replication_factor": r} for n, p, r in rows])
    else:
        print_table(["TOPIC", "PARTITIONS", "REPLICAS"], rows)


@app.command()
def describe(
    topics: Names,
    offsets: Annotated[
        bool,
        typer.Option("--offsets", help="Also show the earliest and the latest offset of each partition."),
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    json_output: JsonOutput = False,
) -> None:
    """Show topics: id, partitions with leader, replicas and in-sync replicas, and changed configurations."""
    client = admin_client(bootstrap, command_config)
    with reported_errors(bootstrap):
        futures = client.describe_topics(TopicCollection(topics), request_timeout=REQUEST_TIMEOUT_S)
    descriptions = [_of_existing(client, name, future, bootstrap) for name, future in futures.items()]
    resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in topics]
    with reported_errors(bootstrap):
        configs = client.describe_configs(resources, request_timeout=REQUEST_TIMEOUT_S)
    changed = {
        resource.name: {
            entry.name: entry.value
            for entry in result_of(future, bootstrap).values()
            if entry.source == ConfigResource.Type.TOPIC.value - 1 and not entry.is_sensitive
        }
        for resource, future in configs.items()
    }
    ranges = _offset_ranges(client, descriptions, bootstrap) if offsets else {}
    if json_output:
        print_json([_as_json(description, changed[description.name], ranges) for description in descriptions])
        return
    for description in descriptions:
        settings = " ".join(f"{name}={value}" for name, value in sorted(changed[description.name].items()))
        console().print(f"[bold]{description.name}[/]  id {description.topic_id}  {settings}")
        print_table(
            ["PARTITION", "LEADER", "REPLICAS", "IN SYNC", *(["EARLIEST", "LATEST"] if offsets else [])],
            [
                (
                    p.id,
                    p.leader.id if p.leader else None,
                    _ids(p.replicas),
                    _ids(p.isr),
                    *ranges.get((description.name, p.id), ()),
                )
                for p in description.partitions
            ],
        )


@app.command()
def alter(
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="Topic name.")],
    partitions: Annotated[
        int | None,
        typer.Option("--partitions", "-p", metavar="N", min=1, help="The new, larger number of partitions."),
    ] = None,
    config: Settings = None,
    delete_config: Annotated[
        list[str] | None,
        typer.Option(
            "--delete-config", "-d", metavar="NAME", help="Reset a configuration to its default; repeatable."
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    json_output: JsonOutput = False,
) -> None:
    """Add partitions to a topic, or change its configuration."""
    if partitions is None and not config and not delete_config:
        fail("nothing to alter: give --partitions, --config or --delete-config", EXIT_USAGE)
    client = admin_client(bootstrap, command_config)
    if partitions is not None:
        futures = client.create_partitions(
            [NewPartitions(topic, partitions)], request_timeout=REQUEST_TIMEOUT_S
        )
        _of_existing(client, topic, futures[topic], bootstrap)
    if config or delete_config:
        set_topic_configs(client, topic, parse_assignments(config or []), delete_config or [], bootstrap)
    if json_output:
        print_json({"topic": topic, "altered": True})
    else:
        console().print(f"altered {topic}")


@app.command()
def delete(
    topics: Names,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    json_output: JsonOutput = False,
) -> None:
    """Delete topics and all their records."""
    client = admin_client(bootstrap, command_config)
    futures = client.delete_topics(topics, request_timeout=REQUEST_TIMEOUT_S)
    for name, future in futures.items():
        _of_existing(client, name, future, bootstrap)
        if not json_output:
            console().print(f"deleted {name}")
    if json_output:
        print_json([{"topic": name, "deleted": True} for name in futures])


def _of_existing(client: AdminClient, name: str, future: "Future[T]", bootstrap: str) -> T:
    """Wait for a call about a topic; if there is no such topic, the error suggests others."""
    return result_of(future, bootstrap, f"topic {name!r}", partial(topics_like, client, name))


def _offset_ranges(
    client: AdminClient, descriptions: list[TopicDescription], bootstrap: str
) -> dict[PartitionKey, tuple[int, int]]:
    """The earliest and the latest offset of each partition."""
    partitions = [(description.name, p.id) for description in descriptions for p in description.partitions]
    earliest = list_offsets(client, partitions, OffsetSpec.earliest(), bootstrap)
    latest = list_offsets(client, partitions, OffsetSpec.latest(), bootstrap)
    return {key: (earliest[key], latest[key]) for key in partitions}


def _ids(nodes: list[Node]) -> str:
    return ",".join(str(node.id) for node in nodes)


def _as_json(
    description: TopicDescription,
    configs: dict[str, str | None],
    ranges: dict[PartitionKey, tuple[int, int]],
) -> Json:
    return {
        "topic": description.name,
        "topic_id": str(description.topic_id),
        "internal": description.is_internal,
        "configs": dict(configs),
        "partitions": [
            {
                "partition": p.id,
                "leader": p.leader.id if p.leader else None,
                "replicas": [node.id for node in p.replicas],
                "isr": [node.id for node in p.isr],
                **dict(zip(("earliest", "latest"), ranges.get((description.name, p.id), ()), strict=False)),
            }
            for p in description.partitions
        ],
    }
