"""`penstock token`: create, list, renew and expire delegation tokens (KIP-48)."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Final

import typer

from penstock.cli.connection import (
    DEFAULT_BOOTSTRAP,
    EXIT_USAGE,
    Bootstrap,
    CommandConfig,
    JsonOutput,
    fail,
)
from penstock.cli.open_cluster import open_cluster
from penstock.cli.output import Json, console, print_json, print_table
from penstock.cli.timestamps import parse_duration_ms
from penstock.client.admin.tokens import (
    AT_ONCE_MS,
    SERVER_DEFAULT_MS,
    DelegationToken,
    create_token,
    describe_tokens,
    expire_token,
    renew_token,
)
from penstock.client.connections.cluster import Cluster
from penstock.security.delegation_tokens import password_of

app = typer.Typer(help="Create, list, renew and expire delegation tokens.", no_args_is_help=True)

_LONGEST_MS: Final = 2**63 - 1

TokenId = Annotated[str, typer.Argument(metavar="ID", help="The id of the token.")]


@app.command()
def create(
    owner: Annotated[
        str | None,
        typer.Option(
            "--owner",
            metavar="TYPE:NAME",
            help="The principal that clients with the token become, such as User:alice. Default: the user "
            "who asks. Another one needs the permission create-tokens on it.",
        ),
    ] = None,
    renewer: Annotated[
        list[str] | None,
        typer.Option(
            "--renewer",
            metavar="TYPE:NAME",
            help="A principal that may renew and expire the token, beside its owner; repeatable.",
        ),
    ] = None,
    max_lifetime: Annotated[
        str | None,
        typer.Option(
            "--max-lifetime",
            metavar="TIME",
            help="How long the token lasts at most, however often it is renewed, such as 12h or 7d. Default: "
            "delegation.token.max.lifetime.ms of the cluster, which is also the limit.",
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    json_output: JsonOutput = False,
) -> None:
    """Create a token, and print it with its HMAC.

    Clients log in with it by SCRAM, with the token's id as their name, the HMAC as their password, and
    tokenauth=true. Who has the HMAC has the rights of the owner. It must be renewed before it expires.
    """
    _check_principals("--owner", [owner] if owner is not None else [])
    _check_principals("--renewer", renewer or [])
    lifetime_ms = SERVER_DEFAULT_MS if max_lifetime is None else _positive_ms("--max-lifetime", max_lifetime)
    with open_cluster(bootstrap, command_config) as cluster:
        token = create_token(cluster, owner=owner, renewers=renewer or (), max_lifetime_ms=lifetime_ms)
    if json_output:
        print_json(_fields(token, show_hmac=True))
        return
    for name, value in (
        ("token id", token.token_id),
        ("hmac", password_of(token.hmac)),
        ("owner", token.owner),
        ("renewers", ", ".join(token.renewers) or "none"),
        ("expires", f"{_moment(token.expiry_timestamp_ms)}, unless it is renewed"),
        ("ends", _moment(token.max_timestamp_ms)),
    ):
        console().print(f"{name}: {value}", soft_wrap=True, markup=False)


@app.command("list")
def list_tokens(
    owner: Annotated[
        list[str] | None,
        typer.Option(
            "--owner",
            metavar="TYPE:NAME",
            help="Only the tokens that this principal owns, may renew or has asked for; repeatable.",
        ),
    ] = None,
    show_hmac: Annotated[
        bool, typer.Option("--show-hmac", help="Show HMACs, with which everybody can log in.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    json_output: JsonOutput = False,
) -> None:
    """List the tokens that you own, may renew or have asked for, and others that ACLs let you see."""
    _check_principals("--owner", owner or [])
    with open_cluster(bootstrap, command_config) as cluster:
        tokens = describe_tokens(cluster, owner)
    _show(tokens, show_hmac, json_output)


@app.command()
def renew(
    token_id: TokenId,
    period: Annotated[
        str | None,
        typer.Option(
            "--period",
            metavar="TIME",
            help="How long the token is valid from now on, such as 12h. Default: "
            "delegation.token.expiry.time.ms of the cluster, which is also the limit.",
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    json_output: JsonOutput = False,
) -> None:
    """Let a token expire later, and print when. Its owner and its renewers may do this."""
    period_ms = SERVER_DEFAULT_MS if period is None else _positive_ms("--period", period)
    with open_cluster(bootstrap, command_config) as cluster:
        expiry_ms = renew_token(cluster, _token(cluster, token_id).hmac, period_ms)
    _show_expiry(token_id, expiry_ms, json_output)


@app.command()
def expire(
    token_id: TokenId,
    period: Annotated[
        str | None,
        typer.Option(
            "--period", metavar="TIME", help="Let it expire after this time, such as 10m. Default: at once."
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    json_output: JsonOutput = False,
) -> None:
    """Remove a token, or let it expire after a period. Its owner and its renewers may do this.

    Clients that have logged in with it stay until the end of their session, which is the time when the token
    would have expired at their login.
    """
    period_ms = AT_ONCE_MS if period is None else _ms(period)
    with open_cluster(bootstrap, command_config) as cluster:
        expiry_ms = expire_token(cluster, _token(cluster, token_id).hmac, period_ms)
    _show_expiry(token_id, expiry_ms, json_output)


def _token(cluster: Cluster, token_id: str) -> DelegationToken:
    """The token with this id, so that no HMAC is among the arguments, which others on the machine see."""
    for token in describe_tokens(cluster):
        if token.token_id == token_id:
            return token
    fail(f"there is no token {token_id!r} that you may renew or see")


def _check_principals(option: str, principals: Sequence[str]) -> None:
    for principal in principals:
        kind, _, name = principal.partition(":")
        if not (kind and name):
            fail(f"{option} {principal}: expected TYPE:NAME, such as User:alice", EXIT_USAGE)


def _positive_ms(option: str, text: str) -> int:
    """A period, which must not be 0: the cluster takes that for its default."""
    period_ms = _ms(text)
    if period_ms == 0:
        fail(f"{option} {text}: expected more than 0 ms", EXIT_USAGE)
    return period_ms


def _ms(text: str) -> int:
    """A period in milliseconds, at most the longest one that a request can have."""
    return min(parse_duration_ms(text), _LONGEST_MS)


def _show_expiry(token_id: str, expiry_ms: int, json_output: bool) -> None:
    if json_output:
        print_json({"token_id": token_id, "expiry_timestamp_ms": expiry_ms})
    else:
        console().print(f"token {token_id} expires: {_moment(expiry_ms)}", soft_wrap=True, markup=False)


def _show(tokens: Sequence[DelegationToken], show_hmac: bool, json_output: bool) -> None:
    if json_output:
        print_json([_fields(token, show_hmac=show_hmac) for token in tokens])
        return
    columns = ["TOKEN", "OWNER", "REQUESTER", "RENEWERS", "ISSUED", "EXPIRES", "ENDS"]
    rows = [
        [
            token.token_id,
            token.owner,
            token.requester,
            ", ".join(token.renewers),
            _moment(token.issue_timestamp_ms),
            _moment(token.expiry_timestamp_ms),
            _moment(token.max_timestamp_ms),
            *([password_of(token.hmac)] if show_hmac else []),
        ]
        for token in tokens
    ]
    print_table([*columns, "HMAC"] if show_hmac else columns, rows)


def _fields(token: DelegationToken, *, show_hmac: bool) -> dict[str, Json]:
    fields: dict[str, Json] = {
        "token_id": token.token_id,
        "owner": token.owner,
        "requester": token.requester,
        "renewers": token.renewers,
        "issue_timestamp_ms": token.issue_timestamp_ms,
        "expiry_timestamp_ms": token.expiry_timestamp_ms,
        "max_timestamp_ms": token.max_timestamp_ms,
    }
    return fields | {"hmac": password_of(token.hmac)} if show_hmac else fields


def _moment(timestamp_ms: int) -> str:
    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (ValueError, OverflowError):
        return "never"
