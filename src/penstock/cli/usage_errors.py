"""Errors in the usage of the command line, as one line on standard error like all other errors."""

import sys
from functools import partial
from typing import Any, Final, cast

import typer
from typer.core import TyperGroup

_UsageError: Final = cast("type[typer.BadParameter]", typer.BadParameter.__mro__[1])
"""The base class of usage errors, which Typer does not export."""


class Commands(TyperGroup):
    """A group of commands that reports a wrong usage in one line, where Typer prints the usage and a box."""

    def main(self, *args: Any, standalone_mode: bool = True, **extra: Any) -> Any:
        """Run the command of these words. A caller that handles errors passes ``standalone_mode=False``."""
        run = partial(super().main, *args, **extra)
        if not standalone_mode:
            return run(standalone_mode=False)
        try:
            sys.exit(run(standalone_mode=False) or 0)
        except _UsageError as error:
            if type(error).__name__ != "NoArgsIsHelpError":  # the help is the whole answer
                _print(error)
            sys.exit(error.exit_code)
        except typer.Abort:  # the input ended
            sys.exit(1)


def _print(error: typer.BadParameter) -> None:
    from penstock.cli.output import print_error

    message = " ".join(error.format_message().split())
    hint = "" if error.ctx is None else f" (see `{error.ctx.command_path} --help`)"
    print_error(f"{message}{hint}")
