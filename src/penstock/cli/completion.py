"""`penstock completion`: shells complete commands, options and their values.

The scripts are Typer's. They call `penstock` with the line so far in environment variables, and `main` then
imports only the command that the line names.
"""

import os
from enum import StrEnum
from typing import Annotated, Final

import typer
from typer.completion import get_completion_script

PROGRAM: Final = "penstock"
VARIABLE: Final = "_PENSTOCK_COMPLETE"
"""The variable that says what a shell asks for, such as complete_bash."""
_LINES: Final = ("COMP_WORDS", "_TYPER_COMPLETE_ARGS")
"""The variables with the line so far, in bash and in the other shells."""


class Shell(StrEnum):
    """The shells that have a script."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="The shell: bash, zsh or fish.")],
) -> None:
    """Print a script that makes the shell complete this command; docs/cli.md shows where it belongs."""
    typer.echo(get_completion_script(prog_name=PROGRAM, complete_var=VARIABLE, shell=shell.value))


def words_to_complete() -> list[str] | None:
    """Return the words of the line that a shell asks to complete, or None if the command is run."""
    if VARIABLE not in os.environ:
        return None
    line = next((os.environ[name] for name in _LINES if name in os.environ), "")
    return line.split()[1:]
