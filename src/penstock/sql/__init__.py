"""ksqlDB's language: parse a text, analyze it against a catalog, and plan, evaluate and run its queries.

`parse_script` reads statements and `print_statement` writes them; errors are `SqlError`s with their place.
Only `engine` and `server` execute statements. Of the other packages only `formats` (the schema registry) and
`evaluation` (the files of user-defined functions) may do I/O.
"""

from penstock.sql.errors import Place, SqlError
from penstock.sql.printing import print_statement
from penstock.sql.script import ScriptStatement, parse, parse_script

__all__ = ["Place", "ScriptStatement", "SqlError", "parse", "parse_script", "print_statement"]
