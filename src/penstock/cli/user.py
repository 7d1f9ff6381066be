"""`penstock user`: create, list and delete users with passwords (SCRAM credentials)."""

import os
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
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
from penstock.cli.output import Json, print_json, print_table
from penstock.client.admin.users import UserCredential, delete_password, describe_users, set_password
from penstock.security.scram import MAX_ITERATIONS, MIN_ITERATIONS, ScramMechanism

app = typer.Typer(help="Create, list and delete users with passwords (SCRAM).", no_args_is_help=True)

STDIN: Final = Path("-")


class MechanismName(StrEnum):
    """The SASL mechanisms that a user's password can be for."""

    SCRAM_SHA_256 = "SCRAM-SHA-256"
    SCRAM_SHA_512 = "SCRAM-SHA-512"


Name = Annotated[str, typer.Argument(metavar="NAME", help="The user's name.")]


@app.command()
def create(
    name: Name,
    mechanism: Annotated[
        MechanismName,
        typer.Option(
            "--mechanism",
            metavar="MECHANISM",
            case_sensitive=False,
            help=f"How the user logs in: {' or '.join(MechanismName)}.",
        ),
    ] = MechanismName.SCRAM_SHA_256,
    password_file: Annotated[
        Path | None,
        typer.Option(
            "--password-file",
            metavar="FILE",
            help="Read the password from a file, without the end of its line; '-' stands for standard input.",
        ),
    ] = None,
    password_env: Annotated[
        str | None,
        typer.Option(
            "--password-env", metavar="VARIABLE", help="Read the password from an environment variable."
        ),
    ] = None,
    iterations: Annotated[
        int,
        typer.Option(
            "--iterations",
            metavar="N",
            min=MIN_ITERATIONS,
            max=MAX_ITERATIONS,
            help=f"Rounds of hashing, {MIN_ITERATIONS} to {MAX_ITERATIONS}: more make guessing slower, and "
            "logins.",
        ),
    ] = MIN_ITERATIONS,
    replace: Annotated[
        bool, typer.Option("--replace", help="Change the password of a user who has one.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    json_output: JsonOutput = False,
) -> None:
    """Give a user a password for one mechanism.

    The command asks for the password, unless an option says where it is. No option takes the password itself,
    because other users of the machine can see the arguments of a command. It is sent salted and hashed, which
    still suffices to log in: use a connection that others cannot read.
    """
    if not name:
        fail("NAME must not be empty", EXIT_USAGE)
    password = _password(name, password_file, password_env)
    chosen = ScramMechanism[mechanism.name]
    with open_cluster(bootstrap, command_config) as cluster:
        known = [credential.mechanism for credential in describe_users(cluster, name)]
        if chosen in known and not replace:
            fail(f"user {name!r} has a password for {mechanism} already: --replace changes it")
        set_password(cluster, name, password, chosen, iterations)
    _show([UserCredential(name, chosen, iterations)], json_output)


@app.command("list")
def list_users(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    json_output: JsonOutput = False,
) -> None:
    """List users with the mechanisms for which they have a password."""
    with open_cluster(bootstrap, command_config) as cluster:
        found = describe_users(cluster)
    _show(found, json_output)


@app.command()
def delete(
    name: Name,
    mechanism: Annotated[
        MechanismName | None,
        typer.Option(
            "--mechanism",
            metavar="MECHANISM",
            case_sensitive=False,
            help=f"Only the password for this mechanism: {' or '.join(MechanismName)}. Default: all.",
        ),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    command_config: CommandConfig = None,
    json_output: JsonOutput = False,
) -> None:
    """Delete a user's passwords, and print what they were for.

    ACLs for the user stay.
    """
    with open_cluster(bootstrap, command_config) as cluster:
        found = [
            credential
            for credential in describe_users(cluster, name)
            if mechanism is None or credential.mechanism.title == mechanism
        ]
        if not found:
            fail(f"user {name!r} has no password{f' for {mechanism}' if mechanism else ''}")
        for credential in found:
            delete_password(cluster, name, credential.mechanism)
    _show(found, json_output)


def _password(user: str, file: Path | None, variable: str | None) -> str:
    """The password from where the options say, or from the terminal."""
    if file is not None and variable is not None:
        fail("give --password-file or --password-env, not both", EXIT_USAGE)
    if file is not None:
        source, password = f"--password-file {file}", _line_of(file)
    elif variable is not None:
        source = f"--password-env {variable}"
        if variable not in os.environ:
            fail(f"{source}: there is no such environment variable", EXIT_USAGE)
        password = os.environ[variable]
    elif sys.stdin.isatty():
        source = "the password"
        password = typer.prompt(
            f"Password for {user}", hide_input=True, confirmation_prompt="Repeat the password", err=True
        )
    else:
        fail("give the password by --password-file or --password-env: there is no terminal", EXIT_USAGE)
    if not password:
        fail(f"{source}: the password must not be empty", EXIT_USAGE)
    return password


def _line_of(file: Path) -> str:
    """The only line of a file."""
    try:
        content = sys.stdin.buffer.read() if file == STDIN else file.read_bytes()
        text = content.decode()
    except OSError as error:
        fail(f"cannot read --password-file {file}: {error.strerror}", EXIT_USAGE)
    except UnicodeDecodeError:
        fail(f"--password-file {file}: expected text in UTF-8", EXIT_USAGE)
    text = text.removesuffix("\n").removesuffix("\r")
    if "\n" in text:
        fail(f"--password-file {file}: expected one line", EXIT_USAGE)
    return text


def _show(credentials: Sequence[UserCredential], json_output: bool) -> None:
    rows: list[dict[str, Json]] = [
        {"user": user, "mechanism": mechanism.title, "iterations": iterations}
        for user, mechanism, iterations in credentials
    ]
    if json_output:
        print_json(rows)
    else:
        print_table(["USER", "MECHANISM", "ITERATIONS"], [list(row.values()) for row in rows])
