"""ksqlDB's language: parse a text, analyze it against a catalog, and plan, evaluate and run its queries.

`parse_script` reads statements and `print_statement` writes them; errors are `SqlError`s with their place.
Only `engine` and `server` execute statements. Of the other packages only `formats` (the schema registry) and
`evaluation` (the files of user-defined functions) may do I/O.
"""

from penstock.sql.language.errors import Place, SqlError
from penstock.sql.language.parsing.script import ScriptStatement, parse, parse_script
from penstock.sql.language.statement_printing import print_statement

__all__ = ["Place", "ScriptStatement", "SqlError", "parse", "parse_script", "print_statement"]
