"""The language of ksqlDB: what a text says, and what it means in a given catalogue. Nothing in it reads a
file or a clock, or runs, but for `penstock.sql.engine`: that is what a server does with it.

`parse_script` reads statements; `print_statement` writes them. Errors are `SqlError`s with their place.
"""

from penstock.sql.errors import Place, SqlError
from penstock.sql.printing import print_statement
from penstock.sql.script import ScriptStatement, parse, parse_script

__all__ = ["Place", "ScriptStatement", "SqlError", "parse", "parse_script", "print_statement"]
