"""The engine of a SQL server: it executes ksqlDB's statements, runs persistent queries and answers SELECTs.

`engine` passes each statement of a request to the room that executes it: `changing` logs and applies changes
of the service's state, `reading` answers SELECT and PRINT, and `showing` describes the service. `running`
runs the persistent queries, and `ground` holds what these rooms need. HTTP and its JSON belong in
`penstock.sql.server`; the translation of a plan into a streams application in `penstock.sql.planning`.
"""

from penstock.sql.engine.engine import Engine
from penstock.sql.engine.ground.config import EngineConfig
from penstock.sql.engine.ground.errors import EngineError, ErrorCode
from penstock.sql.engine.running.host import QueryHost, QueryState, QueryStatus

__all__ = [
    "Engine",
    "EngineConfig",
    "EngineError",
    "ErrorCode",
    "QueryHost",
    "QueryState",
    "QueryStatus",
]
