"""ksqlDB's language: parse a text, analyze it against a catalog, and plan, evaluate and run its queries.

`parse_script` reads statements and `print_statement` writes them; its error is `SqlError`, with the place.
Only `engine` and `server` execute statements. Of the other packages only `formats` (the schema registry) and
`evaluation` (the files of user-defined functions) may do I/O.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

from penstock.extras import needs_extra

if TYPE_CHECKING:
    from penstock.sql.analysis import analyze
    from penstock.sql.catalog import Catalog
    from penstock.sql.evaluation.user_functions import UserFunctionError
    from penstock.sql.formats.errors import FormatError
    from penstock.sql.language.errors import Place, SqlError
    from penstock.sql.language.parsing.script import ScriptStatement, parse, parse_script
    from penstock.sql.language.statement_printing import print_statement
    from penstock.sql.planning import build_app

__all__ = [
    "Catalog",
    "FormatError",
    "Place",
    "ScriptStatement",
    "SqlError",
    "UserFunctionError",
    "analyze",
    "build_app",
    "parse",
    "parse_script",
    "print_statement",
]

_MODULES: Final = {
    "Catalog": "penstock.sql.catalog",
    "FormatError": "penstock.sql.formats.errors",
    "Place": "penstock.sql.language.errors",
    "ScriptStatement": "penstock.sql.language.parsing.script",
    "SqlError": "penstock.sql.language.errors",
    "UserFunctionError": "penstock.sql.evaluation.user_functions",
    "analyze": "penstock.sql.analysis",
    "build_app": "penstock.sql.planning",
    "parse": "penstock.sql.language.parsing.script",
    "parse_script": "penstock.sql.language.parsing.script",
    "print_statement": "penstock.sql.language.statement_printing",
}


def __getattr__(name: str) -> object:
    """Import these names on their first use.

    The shell parses statements without planning them, and the command line uses the formats alone.
    """
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = _MODULES[name]
    extra = "sql-shell" if module.startswith("penstock.sql.language.") else "sql"
    with needs_extra(extra, f"penstock.sql.{name}"):
        return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
