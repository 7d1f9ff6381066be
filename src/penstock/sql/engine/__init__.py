"""A SQL server's engine: the catalogue and its log, the statements of ksqlDB, queries that go on and queries
that answer.
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
