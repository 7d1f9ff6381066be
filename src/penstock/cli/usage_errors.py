"""Errors in the usage of the command line, as one line on standard error like all other errors."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
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
        given = extra.get("args") or (args[0] if args else None)
        words = sys.argv[1:] if given is None else list(given)
        if not standalone_mode:
            return run(standalone_mode=False)
        try:
            sys.exit(run(standalone_mode=False) or 0)
        except _UsageError as error:
            if type(error).__name__ != "NoArgsIsHelpError":  # the help is the whole answer
                _print(error, words)
            sys.exit(error.exit_code)
        except typer.Abort:  # the input ended
            sys.exit(1)


def _print(error: typer.BadParameter, words: Sequence[str]) -> None:
    from penstock.cli.output import print_error

    options = _long_options(error)
    unknown = getattr(error, "option_name", None)
    if longer := [name for name in options if name.startswith(f"{unknown}-")]:
        vars(error)["possibilities"] = longer  # an abbreviation: difflib finds others more alike
    message = " ".join([*error.format_message().split(), *_value_of_a_flag(error, words, options)])
    hint = "" if error.ctx is None else f" (see `{error.ctx.command_path} --help`)"
    print_error(f"{message}{hint}")


def _long_options(error: typer.BadParameter) -> dict[str, bool]:
    """The command's options that begin with ``--``, and whether each is a flag."""
    if error.ctx is None:
        return {}
    return {
        name: bool(getattr(option, "is_flag", False))
        for option in error.ctx.command.params
        for name in option.opts
        if name.startswith("--")
    }


def _value_of_a_flag(
    error: typer.BadParameter, words: Sequence[str], options: Mapping[str, bool]
) -> Iterator[str]:
    """Explain an argument too many that follows a flag, and name the options that may have been meant."""
    for flag, value in pairwise(words):
        if options.get(flag) and f"({value})" in error.message:
            longer = [name for name in options if name.startswith(f"{flag}-")]
            yield f"({'; '.join([f'{flag} takes no value', *(f'{name} does' for name in longer)])})"
