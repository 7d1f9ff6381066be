"""`penstock sql`: the shell for a SQL server, and the server."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from penstock.cli.config import parse_assignments
from penstock.cli.connection import (
    EXIT_INTERRUPTED,
    EXIT_REFUSED,
    EXIT_UNREACHABLE,
    EXIT_USAGE,
    fail,
    read_properties,
)
from penstock.cli.extras import require_packages
from penstock.cli.sql_server import server
from penstock.cli.sql_shell.printing import Output

if TYPE_CHECKING:
    import ssl

    from penstock.cli.sql_shell.session import Session

app = typer.Typer(name="sql", invoke_without_command=True)
app.command()(server)

DEFAULT_SERVER: Final = "http://127.0.0.1:8088"
_HISTORY: Final = "~/.penstock_sql_history"
_REQUIRED: Final = ("sqlglot", "prompt_toolkit")


@app.callback()
def shell(
    context: typer.Context,
    url: Annotated[
        str, typer.Option("--server", "-s", envvar="PENSTOCK_SQL", metavar="URL", help="The SQL server.")
    ] = DEFAULT_SERVER,
    user: Annotated[
        str | None,
        typer.Option(
            "--user",
            "-u",
            envvar="PENSTOCK_SQL_USER",
            metavar="NAME",
            help="The user name to authenticate with.",
        ),
    ] = None,
    password: Annotated[
        str | None,
        typer.Option(
            "--password",
            "-p",
            envvar="PENSTOCK_SQL_PASSWORD",
            metavar="TEXT",
            help="The password of the user.",
        ),
    ] = None,
    config_file: Annotated[
        Path | None,
        typer.Option(
            "--config-file",
            metavar="FILE",
            help="A file with properties for the connection: ssl.truststore.…, ssl.keystore.… and "
            "bearer.auth.token.",
        ),
    ] = None,
    execute: Annotated[
        list[str] | None,
        typer.Option(
            "--execute", "-e", metavar="STATEMENTS", help="Run these statements and exit; repeatable."
        ),
    ] = None,
    file: Annotated[
        list[Path] | None,
        typer.Option(
            "--file", "-f", metavar="FILE", help="Run the statements of a file and exit; repeatable."
        ),
    ] = None,
    output: Annotated[
        Output, typer.Option("--output", "-o", metavar="FORMAT", help="The format of answers: table or json.")
    ] = Output.table,
    define: Annotated[
        list[str] | None,
        typer.Option(
            "--define", "-d", metavar="NAME=VALUE", help="Define a variable, used as ${NAME}; repeatable."
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="Set a property, as the statement SET does; repeatable."
        ),
    ] = None,
    history: Annotated[
        Path,
        typer.Option(
            "--history",
            envvar="PENSTOCK_SQL_HISTORY",
            metavar="FILE",
            help="The file that keeps the history of input.",
        ),
    ] = Path(_HISTORY),
) -> None:
    """Enter statements of ksqlDB's language and see the answers (docs/sql-server.md).

    Without a terminal the statements come from standard input. With -e, -f and standard input the first
    statement that fails ends the command, and its position is shown. Exit codes: 1 if a statement failed, 3
    if no server answered, 130 after Ctrl-C.
    """
    if context.invoked_subcommand is not None:
        return
    require_packages(_REQUIRED, "sql-shell", "the shell")
    from penstock.cli.sql_shell.endings import Exit, Failed, Interrupted
    from penstock.cli.sql_shell.printing import Printer
    from penstock.cli.sql_shell.rest import Refused, Rest, Unreachable
    from penstock.cli.sql_shell.session import Session

    try:
        token, tls = _connection(config_file)
        rest = Rest(url, None if user is None else (user, password or ""), token, tls)
    except ValueError as error:
        fail(f"--server: {error}", EXIT_USAGE)
    printer = Printer(output)
    session = Session(rest, printer, parse_assignments(settings or []), parse_assignments(define or []))
    try:
        if execute or file or not sys.stdin.isatty():
            _run_scripts(session, execute or [], file or [])
            return
        told = rest.info()
        service, version = told.get("ksqlServiceId"), told.get("version")
        printer.note(f"{rest.url}: service {service}, ksqlDB's API {version}. HELP lists the commands.")
        from penstock.cli.sql_shell.prompt import interact

        interact(session, history.expanduser())
    except Exit:
        return
    except Unreachable as error:
        fail(
            f"{error}. `penstock sql server` starts one; --server or PENSTOCK_SQL names another.",
            EXIT_UNREACHABLE,
        )
    except (Failed, Refused) as error:
        fail(str(error), EXIT_REFUSED)
    except Interrupted as error:
        printer.note(str(error))
        raise typer.Exit(EXIT_INTERRUPTED) from None
    except KeyboardInterrupt:
        raise typer.Exit(EXIT_INTERRUPTED) from None
    finally:
        printer.spool(None)


def _connection(config_file: Path | None) -> tuple[str | None, ssl.SSLContext | None]:
    """The token and the TLS context of --config-file."""
    if config_file is None:
        return None, None
    from penstock.client.security.security_config import SecurityConfig, tls_context
    from penstock.client.settings import ConfigError, from_properties

    properties = read_properties(config_file, "--config-file")
    of_tls = {name: value for name, value in properties.items() if name.startswith("ssl.")}
    try:
        tls = tls_context(from_properties(SecurityConfig, of_tls)) if of_tls else None
    except ConfigError as error:
        fail(f"--config-file {config_file}: {error}", EXIT_USAGE)
    return properties.get("bearer.auth.token"), tls


def _run_scripts(session: Session, execute: list[str], files: list[Path]) -> None:
    """Run the statements of options, files or standard input.

    Raises Exit, Failed, Interrupted, Unreachable.
    """
    for number, text in enumerate(execute, 1):
        session.carry_out(text, "-e" if len(execute) == 1 else f"-e {number}")
    for path in files:
        session.run_file(path)
    if not execute and not files:
        session.carry_out(sys.stdin.read(), "standard input")
