"""The engine of a SQL server: it executes ksqlDB's statements, runs persistent queries and answers SELECTs.

The package holds the state of a service (its catalogue and its queries), the command topic that logs each
change of it, and all that executes statements and queries. HTTP and its JSON belong in `penstock.sql.server`;
the translation of a plan into a streams application belongs in `penstock.sql.planning`.
"""

from penstock.sql.engine.config import EngineConfig
from penstock.sql.engine.engine import Engine
from penstock.sql.engine.errors import EngineError, ErrorCode
from penstock.sql.engine.hosting import QueryHost, QueryState, QueryStatus

__all__ = [
    "Engine",
    "EngineConfig",
    "EngineError",
    "ErrorCode",
    "QueryHost",
    "QueryState",
    "QueryStatus",
]
