"""The common parts of all client commands: connecting to the cluster, and reporting errors."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, NoReturn, TypeVar

import javaproperties
import typer
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from penstock.cli.client_properties import TokenCallback, for_librdkafka
from penstock.cli.login import login_refusal
from penstock.cli.output import print_error
from penstock.cli.wrong_server import Address, WrongServer, connect, expect_broker
from penstock.client.settings import ConfigError, resolved

REQUEST_TIMEOUT_S = 15.0
DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
DEFAULT_PORT = 9092

EXIT_REFUSED = 1  # the cluster answered with an error, or the named thing does not exist
EXIT_USAGE = 2
EXIT_UNREACHABLE = 3  # no broker answered in time
EXIT_INTERRUPTED = 130  # Ctrl-C, as in shells

_UNREACHABLE = {
    KafkaError._ALL_BROKERS_DOWN,
    KafkaError._TRANSPORT,
    KafkaError._TIMED_OUT,
    KafkaError._MSG_TIMED_OUT,
    KafkaError._RESOLVE,
}
_ADDRESS = re.compile(r"(?:\w+://)?(?:\[(?P<ipv6>[^]]+)\]|(?P<host>[^:/\s]+))(?::(?P<port>\d{1,5}))?")

Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap",
        "-b",
        envvar="PENSTOCK_BOOTSTRAP",
        metavar="HOST:PORT,…",
        help="Brokers for the first connection.",
    ),
]
CommandConfig = Annotated[
    Path | None,
    typer.Option(
        "--command-config",
        metavar="FILE",
        help="A file with properties of the client, such as security settings, under Kafka's names.",
    ),
]
JsonOutput = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]

T = TypeVar("T")

Hint = Callable[[], str]
"""Find a suggestion for a topic that does not exist, only once that is known."""


def fail(message: str, code: int = EXIT_REFUSED) -> NoReturn:
    """Print *message* on stderr and end with *code*."""
    print_error(message)
    raise typer.Exit(code)


Settings = dict[str, str | int | float | bool | TokenCallback]


def read_properties(path: Path | None, option: str = "--command-config") -> dict[str, str]:
    """The properties of the option's file, without the address: --bootstrap gives that."""
    if path is None:
        return {}
    try:
        with path.open() as file:
            properties = resolved(javaproperties.load(file))
    except OSError as error:
        fail(f"cannot read {option} {path}: {error.strerror}", EXIT_USAGE)
    except ConfigError as error:
        fail(f"{option} {path}: {error}", EXIT_USAGE)
    properties.pop("bootstrap.servers", None)
    return properties


def client_settings(
    bootstrap: str, command_config: Path | None, settings: Settings | None = None
) -> Settings:
    """librdkafka settings: the file's, overridden by the command's own and by the address."""
    try:
        from_file = for_librdkafka(read_properties(command_config))
    except ValueError as error:
        fail(f"--command-config {command_config}: {error}", EXIT_USAGE)
    # librdkafka would also print its own connection errors on stderr.
    return {"log_level": 2, **from_file, **(settings or {}), "bootstrap.servers": bootstrap}


def require_broker(bootstrap: str, settings: Mapping[str, object], *, or_controller: bool = False) -> None:
    """End the command if nothing listens at any of the addresses, or if the first server is no broker.

    A client would retry until its own timeout, and report less about the reason. ``settings`` are the
    client's, with any prefix. Where their ``security.protocol`` is not PLAINTEXT, a connection is enough.
    """
    protocols = [str(value) for name, value in settings.items() if name.endswith("security.protocol")]
    plaintext = all(protocol.upper() == "PLAINTEXT" for protocol in protocols)
    contact = partial(expect_broker, or_controller=or_controller) if plaintext else connect
    try:
        reason = _refusal(bootstrap, "--bootstrap", contact)
    except WrongServer as error:
        fail(str(error), EXIT_UNREACHABLE)
    if reason:
        unreachable(bootstrap, reason)


def require_login(bootstrap: str, command_config: Path | None) -> None:
    """End the command with the brokers' reason if they do not let its client in."""
    if reason := login_refusal(bootstrap, read_properties(command_config)):
        fail(reason)


def require_listener(addresses: str, option: str, complaint: str) -> None:
    """End the command if nothing listens at the *option*'s addresses: *complaint* says what is missing."""
    if reason := _refusal(addresses, option, connect):
        fail(f"{option}: {complaint} at {addresses} ({reason})", EXIT_UNREACHABLE)


def _refusal(addresses: str, option: str, contact: Callable[[Address], None]) -> str | None:
    """The reason why none of the addresses can be reached; None if something listens at one of them."""
    reasons = []
    for address in addresses.split(","):
        match = _ADDRESS.fullmatch(address.strip())
        if match is None:
            fail(f"{option} {addresses}: expected HOST:PORT, several separated by commas", EXIT_USAGE)
        named = Address(match["ipv6"] or match["host"], int(match["port"] or DEFAULT_PORT))
        if (failure := _failure(contact, named)) is None:
            return None
        reasons.append(failure)
    return "; ".join(dict.fromkeys(reasons))


def connect_failure(host: str, port: int) -> str | None:
    """The reason why a connection to this address fails; None if something listens there."""
    return _failure(connect, Address(host, port))


def _failure(contact: Callable[[Address], None], address: Address) -> str | None:
    try:
        contact(address)
    except (OSError, OverflowError) as error:
        return getattr(error, "strerror", None) or str(error)
    return None


def admin_client(bootstrap: str, command_config: Path | None) -> AdminClient:
    """Create an admin client; an invalid setting ends the command with an error that names it."""
    settings = client_settings(bootstrap, command_config)
    require_broker(bootstrap, settings)
    require_login(bootstrap, command_config)
    with reported_errors(bootstrap):
        return AdminClient(settings)  # type: ignore[arg-type]  # it takes callbacks, too


def result_of(future: "Future[T]", bootstrap: str, subject: str | None = None, hint: Hint | None = None) -> T:
    """Wait for an admin call; an error ends the command with one line about *subject*."""
    with reported_errors(bootstrap, subject, hint):
        return future.result(REQUEST_TIMEOUT_S + 5)


def require_broker_id(name: str, broker_ids: Collection[int]) -> None:
    """End the command if no broker has this id."""
    if name not in map(str, broker_ids):
        fail(f"there is no broker {name!r}: expected one of {', '.join(map(str, sorted(broker_ids)))}")


@contextmanager
def reported_errors(bootstrap: str, subject: str | None = None, hint: Hint | None = None) -> Iterator[None]:
    """Report client errors as one line, with an exit code that scripts can rely on."""
    try:
        yield
    except KafkaException as error:
        explain(error.args[0], bootstrap, subject, hint)
    except TimeoutError:
        fail(f"no answer from {bootstrap} within {REQUEST_TIMEOUT_S:g} s", EXIT_UNREACHABLE)


def explain(
    error: KafkaError, bootstrap: str, subject: str | None = None, hint: Hint | None = None
) -> NoReturn:
    """End the command with the meaning of *error*, the *subject* that it concerns, and the *hint*."""
    reason = _reason(error)
    if error.code() in _UNREACHABLE:
        unreachable(bootstrap, reason)
    about = f"{subject}: " if subject else ""
    if error.code() == KafkaError._INVALID_ARG:
        fail(f"{about}{reason}", EXIT_USAGE)
    suggestion = hint() if hint is not None and error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART else ""
    fail(f"{about}{meaning(error)}{suggestion}")


def meaning(error: KafkaError) -> str:
    """The words of *error* and its name."""
    return f"{_reason(error)} ({_name(error)})"


def _reason(error: KafkaError) -> str:
    return error.str().removeprefix("Broker: ").removeprefix("Local: ").removesuffix(".")


def _name(error: KafkaError) -> str:
    """Kafka's name of an error that a broker returned; librdkafka's of its own, and of unknown ones."""
    from penstock.protocol.errors import ErrorCode

    code = ErrorCode.of(error.code())
    return code.name if code == error.code() else error.name().removeprefix("_")


def unreachable(bootstrap: str, reason: str) -> NoReturn:
    """End the command because no broker answers."""
    fail(
        f"no broker answers at {bootstrap} ({reason}). Is one running there? "
        "`penstock start` starts one; --bootstrap or PENSTOCK_BOOTSTRAP names another.",
        EXIT_UNREACHABLE,
    )
