"""The text of statements as answers show it, without what may be secret."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from sqlglot import exp

from penstock.sql.language import statements as s
from penstock.sql.language.statement_printing import print_statement

_SHOWN: Final = "connector.class"


def masked(create: s.CreateConnector) -> str:
    """Return a statement's text with ``'[string]'`` as the value of all properties but the connector's class.

    They may contain passwords of outside systems. ksqlDB hides them in the same way.
    """
    shown = (
        each if each.name.lower() == _SHOWN else replace(each, value=exp.Literal.string("[string]"))
        for each in create.properties
    )
    return print_statement(replace(create, properties=tuple(shown)))
