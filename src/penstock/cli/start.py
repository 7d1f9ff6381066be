"""`penstock start`: run a node in the foreground until SIGTERM or Ctrl-C."""

import asyncio
import gc
import importlib
import logging
import math
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, NoReturn

import typer

from penstock.cli import join as join_words
from penstock.cli.log_options import LogFormat, LogLevel

if TYPE_CHECKING:
    from penstock.broker.partitions.schema_validation import SchemaIds
    from penstock.cli.embedded_connect import ConnectOptions
    from penstock.cli.start_several import RegistryPlan
    from penstock.metadata.configs import BrokerConfig

log = logging.getLogger(__name__)

DEFAULT_DATA_DIR = "penstock-data"
DEFAULT_LISTEN = "127.0.0.1:9092"
DEFAULT_REGISTRY_LISTEN = "127.0.0.1:8081"
_SETTING_OF = {
    "--listen": "listeners",
    "--advertised": "advertised.listeners",
    "--log-level": "penstock.log.level",
    "--log-format": "penstock.log.format",
}
ONE_REQUEST_S = 0.1
"""Signals within this time are one request to stop: a service manager signals this process and its parent."""
EXIT_CONFIG = 2
EXIT_FAILED = 1


def start(
    data_dir: Annotated[
        Path | None,
        typer.Option(
            "--data-dir",
            metavar="DIR",
            help=f"The data directories, separated by commas (log.dirs). Default: {DEFAULT_DATA_DIR}.",
        ),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(
            "--listen",
            metavar="HOST:PORT",
            help="The address for clients; port 0 selects a free port. Default: 127.0.0.1:9092.",
        ),
    ] = None,
    advertised: Annotated[
        str | None,
        typer.Option(
            "--advertised",
            metavar="HOST:PORT",
            help="The address that the node advertises to clients. Default: the address of --listen, or "
            "localhost if that is 0.0.0.0.",
        ),
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", metavar="FILE", help="A file like Kafka's server.properties.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Set a broker configuration; repeatable."),
    ] = None,
    node_id: Annotated[
        int | None,
        typer.Option("--node-id", metavar="N", min=0, help="The id of this node in a cluster of several."),
    ] = None,
    controller: Annotated[
        str | None,
        typer.Option(
            "--controller",
            metavar="HOST:PORT",
            help="Also run a controller, at this address. Without --join, it creates a new cluster.",
        ),
    ] = None,
    join: Annotated[
        str | None,
        typer.Option("--join", metavar="HOST:PORT,…", help="Join the cluster that these controllers run."),
    ] = None,
    brokers: Annotated[
        int | None,
        typer.Option("--brokers", min=1, metavar="N", help="Run a cluster of N nodes on consecutive ports."),
    ] = None,
    registry: Annotated[
        bool,
        typer.Option("--registry", help="Also serve a schema registry; with --brokers, one for all nodes."),
    ] = False,
    registry_listen: Annotated[
        str | None,
        typer.Option(
            "--registry-listen",
            metavar="HOST:PORT",
            help=f"The address that the registry listens on. Default: {DEFAULT_REGISTRY_LISTEN}, or that of "
            "--registry-config.",
        ),
    ] = None,
    registry_config: Annotated[
        Path | None,
        typer.Option(
            "--registry-config",
            metavar="FILE",
            help="A file like Confluent's schema-registry.properties: the registry's credentials at the node "
            "(kafkastore.…), and who may send it requests (docs/registry.md).",
        ),
    ] = None,
    connect: Annotated[
        bool,
        typer.Option(
            "--connect",
            help="Also run a Connect worker in its own process; with --brokers, one for all nodes.",
        ),
    ] = False,
    connect_listen: Annotated[
        str | None,
        typer.Option(
            "--connect-listen",
            metavar="HOST:PORT",
            help="The address of the worker's REST API. Default: 127.0.0.1:8083, or the listeners of "
            "--connect-config.",
        ),
    ] = None,
    connect_config: Annotated[
        Path | None,
        typer.Option(
            "--connect-config",
            metavar="FILE",
            help="A file like Kafka's connect-distributed.properties (docs/connect.md).",
        ),
    ] = None,
    log_level: Annotated[
        LogLevel | None,
        typer.Option(
            "--log-level",
            metavar="LEVEL",
            case_sensitive=False,
            help="Log events of this level and above (penstock.log.level): TRACE, DEBUG, INFO, WARN, ERROR "
            "or FATAL. Default: INFO.",
        ),
    ] = None,
    log_format: Annotated[
        LogFormat | None,
        typer.Option(
            "--log-format",
            metavar="FORMAT",
            help="Write log lines as text or as json (penstock.log.format). Default: text.",
        ),
    ] = None,
) -> None:
    """Run a node. It prints "ready on HOST:PORT" when it accepts connections.

    SIGTERM, SIGINT and SIGHUP stop it cleanly. A second signal stops it without waiting for other nodes.
    """
    from penstock.metadata.configs import InvalidConfig

    if registry_config is not None and not registry:
        _fail(f"--registry-config {registry_config}: expected --registry with it", EXIT_CONFIG)
    connect_options = _connect_options(connect, connect_listen, connect_config)
    try:
        settings = _with_options(settings or [], {"--log-level": log_level, "--log-format": log_format})
        if brokers is not None:
            if node_id is not None:
                raise ValueError(
                    f"--brokers {brokers}: the nodes have the ids 1 to {brokers}, without --node-id"
                )
            if advertised is not None:
                raise ValueError(f"--advertised {advertised}: expected one node, without --brokers")
            beside = _registry_plan(registry_listen, registry_config) if registry else None
            _run_several(brokers, data_dir, listen, config, settings, beside, connect_options)
        join_words.check_words(node_id, controller, join, {"--config": config})
        if node_id is None:
            broker_config = read_config(data_dir, listen, config, settings, advertised)
        else:
            broker_config = _member_config(data_dir, listen, node_id, controller, join, settings, advertised)
    except (InvalidConfig, ValueError) as error:
        _fail(str(error), EXIT_CONFIG)
    except join_words.CannotJoin as error:
        _fail(str(error), EXIT_FAILED)
    registry_options = _registry_options(registry_listen, registry_config) if registry else None
    from penstock.broker.network.loop_lag import new_event_loop

    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        code = runner.run(_run(broker_config, registry_options, connect_options))
    sys.exit(code)


def read_config(
    data_dir: Path | None,
    listen: str | None,
    file: Path | None,
    settings: list[str],
    advertised: str | None = None,
) -> "BrokerConfig":
    """The node's configuration: the file, or Kafka's defaults for one node, overridden by the command line.

    Raises InvalidConfig, and ValueError for a file that can't be read or parsed.
    """
    from penstock.broker.setup.local_cluster import ANY_HOST
    from penstock.metadata.configs import BrokerConfig

    properties = _read_properties(file) if file is not None else {}
    given = _settings(settings)
    _refuse_both(given, {"--listen": listen, "--advertised": advertised})
    properties.update(given)
    if listen is not None:
        properties["listeners"] = _listeners(listen)
        host, _, port = listen.rpartition(":")
        if host in ANY_HOST and advertised is None:
            properties.setdefault("advertised.listeners", f"PLAINTEXT://localhost:{port}")
    if advertised is not None:
        _check_address("--advertised", advertised)
        properties["advertised.listeners"] = f"PLAINTEXT://{advertised}"
    if data_dir is not None:
        properties["log.dirs"] = str(data_dir)
    if file is not None:
        return BrokerConfig.from_properties(properties)
    if "log.dir" not in properties:
        properties.setdefault("log.dirs", DEFAULT_DATA_DIR)
    return BrokerConfig.single_node(properties)


def _member_config(
    data_dir: Path | None,
    listen: str | None,
    node_id: int,
    controller: str | None,
    join: str | None,
    settings: list[str],
    advertised: str | None,
) -> "BrokerConfig":
    """The configuration of one node among several; formats its directories.

    Raises InvalidConfig, ValueError, CannotJoin.
    """
    from penstock.broker.setup.storage_format import CannotFormat
    from penstock.metadata.configs import BrokerConfig
    from penstock.storage.errors import LogDirectoryError

    given = _settings(settings)
    _refuse_both(given, {"--listen": listen, "--advertised": advertised})
    for option, address in (("--listen", listen), ("--advertised", advertised), ("--controller", controller)):
        if address is not None:
            _check_address(option, address)
    properties = join_words.cluster_properties(node_id, listen or DEFAULT_LISTEN, controller, join)
    properties["log.dirs"] = str(data_dir or DEFAULT_DATA_DIR)
    if advertised is not None:
        properties["advertised.listeners"] = f"PLAINTEXT://{advertised}"
    properties.update(given)
    config = BrokerConfig.from_properties(properties)
    try:
        join_words.prepare(config, join)
    except (CannotFormat, LogDirectoryError, OSError) as error:
        raise join_words.CannotJoin(str(error)) from error
    return config


def _run_several(
    brokers: int,
    data_dir: Path | None,
    listen: str | None,
    file: Path | None,
    settings: list[str],
    registry: "RegistryPlan | None",
    connect: "ConnectOptions | None",
) -> NoReturn:
    """Check the options of ``--brokers`` and run the nodes. Raises InvalidConfig, ValueError."""
    from penstock.cli.start_several import run_several

    if file is not None:
        raise ValueError(f"--config {file}: a file describes one node; with --brokers give --set NAME=VALUE")
    address = listen or DEFAULT_LISTEN
    _check_address("--listen", address)
    host, _, port = address.rpartition(":")
    directory = data_dir or Path(DEFAULT_DATA_DIR)
    run_several(brokers, directory, host, int(port), _settings(settings), registry, connect)


def _registry_plan(listen: str | None, file: Path | None) -> "RegistryPlan":
    """The registry beside the nodes of ``--brokers``. Raises ValueError."""
    from penstock.cli.registry import require_extra
    from penstock.cli.server_properties import split_address
    from penstock.cli.start_several import RegistryPlan

    require_extra()
    if file is None:
        return RegistryPlan(*split_address(listen or DEFAULT_REGISTRY_LISTEN))
    from penstock.client.settings import resolved
    from penstock.registry.api.listener import ListenerConfig

    listener = ListenerConfig.from_properties(resolved(_read_properties(file, "--registry-config")))
    host, port = (listener.host, listener.port) if listen is None else split_address(listen)
    return RegistryPlan(host, port, listener.scheme, listener.advertised, file)


def _refuse_both(given: Mapping[str, str], options: Mapping[str, str | None]) -> None:
    """Refuse an option beside the setting that it stands for. Raises ValueError."""
    for option, value in options.items():
        name = _SETTING_OF[option]
        if value is not None and name in given:
            raise ValueError(f"{option} {value}: expected it without --set {name}={given[name]}")


def _with_options(settings: list[str], options: Mapping[str, str | None]) -> list[str]:
    """Add the options to the settings that they stand for. Raises ValueError if both are given."""
    _refuse_both(_settings(settings), options)
    given = [f"{_SETTING_OF[option]}={value}" for option, value in options.items() if value is not None]
    return [*settings, *given]


def _settings(settings: list[str]) -> dict[str, str]:
    values = {}
    for setting in settings:
        name, separator, value = setting.partition("=")
        if not separator:
            raise ValueError(f"--set {setting}: expected NAME=VALUE")
        values[name.strip()] = value
    return values


def _read_properties(file: Path, option: str = "--config") -> dict[str, str]:
    import javaproperties

    try:
        with file.open("rb") as stream:
            return dict(javaproperties.load(stream))
    except OSError as error:
        raise ValueError(f"{option} {file}: {error.strerror}") from None


def _listeners(listen: str) -> str:
    _check_address("--listen", listen)
    return f"PLAINTEXT://{listen}"


def _check_address(option: str, address: str) -> None:
    _, separator, port = address.rpartition(":")
    if not separator or not port.isdigit():
        raise ValueError(f"{option} {address}: expected HOST:PORT")


class _RegistryOptions(NamedTuple):
    """The properties of a registry beside the node, and its address if that is not among them."""

    properties: dict[str, str]
    host: str | None
    port: int | None


def _registry_options(listen: str | None, file: Path | None) -> _RegistryOptions:
    from penstock.cli.registry import require_extra
    from penstock.cli.server_properties import split_address

    require_extra()
    # Import now: it takes half a second, which would block the event loop later.
    importlib.import_module("penstock.cli.embedded_registry")
    try:
        properties = {} if file is None else _read_properties(file, "--registry-config")
    except ValueError as error:
        _fail(str(error), EXIT_CONFIG)
    if listen is None and "listeners" not in properties:
        listen = DEFAULT_REGISTRY_LISTEN
    return _RegistryOptions(properties, *((None, None) if listen is None else split_address(listen)))


def _connect_options(is_on: bool, listen: str | None, file: Path | None) -> "ConnectOptions | None":
    """The options of a worker beside the node, if there is one; options without a worker end the command."""
    if not is_on:
        for option, value in (("--connect-listen", listen), ("--connect-config", file)):
            if value is not None:
                _fail(f"{option} {value}: expected --connect with it", EXIT_CONFIG)
        return None
    from penstock.cli.connect import require_extra
    from penstock.cli.embedded_connect import ConnectOptions

    require_extra()
    if file is not None and not file.is_file():
        _fail(f"--connect-config {file}: expected a file", EXIT_CONFIG)
    return ConnectOptions(listen, file)


def _schema_ids(url: str, config: "BrokerConfig") -> "SchemaIds":
    """The schema ids of a registry. Raises InvalidConfig."""
    from penstock.cli.schema_ids import RegisteredIds
    from penstock.client import settings
    from penstock.metadata.configs import InvalidConfig

    try:
        return RegisteredIds(url, get=config.get)
    except settings.ConfigError as error:
        raise InvalidConfig("confluent.schema.registry.url", str(error)) from error


async def _run(
    config: "BrokerConfig",
    registry_options: "_RegistryOptions | None",
    connect_options: "ConnectOptions | None",
) -> int:
    from penstock.broker.node import Broker, CannotStart
    from penstock.broker.setup import log_format
    from penstock.broker.setup.freed_memory import keep_freed_memory
    from penstock.metadata.configs import InvalidConfig
    from penstock.processes import service_manager
    from penstock.processes.stop_signals import stop_signals
    from penstock.protocol.kernels import IMPLEMENTATION
    from penstock.protocol.software import VERSION

    level, form = config.get_str("penstock.log.level"), config.get_str("penstock.log.format")
    log_format.configure(level.upper(), form)
    manager = service_manager.ServiceManager()
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    broker: Broker | None = None
    first_signal_s = math.inf

    def stop() -> None:
        nonlocal first_signal_s
        if broker is not None and loop.time() > first_signal_s + ONE_REQUEST_S:
            broker.hurry()
        first_signal_s = min(first_signal_s, loop.time())
        stopping.set()

    for number in stop_signals():
        loop.add_signal_handler(number, stop)
    try:
        broker = Broker(config)
        log.info(
            "starting node_id=%d version=%s kernels=%s", config.get_int("node.id"), VERSION, IMPLEMENTATION
        )
        url = config["confluent.schema.registry.url"]
        if url:
            broker.schemas = _schema_ids(str(url), config)
        keep_freed_memory()
        starting = loop.create_task(broker.start())
        stopped = loop.create_task(stopping.wait())
        await asyncio.wait((starting, stopped), return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            # Workers may take minutes to recover logs. The next start completes what this one leaves
            # unfinished.
            print("penstock: stopped while starting", file=sys.stderr, flush=True)
            os._exit(0)
        host, port = await starting
    except (InvalidConfig, CannotStart) as error:
        print(f"penstock: {error}", file=sys.stderr)
        return EXIT_CONFIG if isinstance(error, InvalidConfig) else EXIT_FAILED
    _calm_garbage_collector()
    broker.loop_lag.forget()
    print(f"ready on {host}:{port}", flush=True)
    manager.notify(service_manager.READY)
    _share_interpreter_often()
    waited: list[asyncio.Future[Any]] = [stopped, broker.died]
    registry = None
    if registry_options is not None:
        from penstock.cli.embedded_registry import EmbeddedRegistry

        def is_ready(registry_url: str) -> None:
            if not url:
                broker.schemas = _schema_ids(registry_url, config)

        registry = EmbeddedRegistry(f"{host}:{port}", *registry_options, is_ready)
        waited.append(registry.failed)
    worker = None
    if connect_options is not None:
        from penstock.cli.embedded_connect import EmbeddedConnect

        worker = EmbeddedConnect(f"{host}:{port}", connect_options)
        waited.append(worker.failed)
    await asyncio.wait(waited, return_when=asyncio.FIRST_COMPLETED)
    manager.notify(service_manager.STOPPING)
    broker.is_stopping = True  # for its probe, while the servers beside it still close
    for beside in (worker, registry):  # connectors may use the registry until they stop
        if beside is not None:
            await beside.close()
    await broker.stop()
    for failed in waited[1:]:
        if failed.done():
            print(f"penstock: {failed.result()}", file=sys.stderr)
            return EXIT_FAILED
    return 0


def _share_interpreter_often() -> None:
    """Let worker threads that run Python return the interpreter to the loop after 1 ms instead of 5."""
    sys.setswitchinterval(0.001)


def _calm_garbage_collector() -> None:
    """Exclude objects made at start-up, which live as long as the node, from garbage collections.

    Collections stop the loop.

    Young objects are collected in small portions: fifty thousand, as new topics create them, take 7 ms and
    more.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(5_000, 4, 5_000)


def _fail(message: str, code: int) -> NoReturn:
    print(f"penstock: {message}", file=sys.stderr)
    raise typer.Exit(code)
