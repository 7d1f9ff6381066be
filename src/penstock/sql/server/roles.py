"""The role that each path and each statement needs.

A reader runs queries and sees what there is. A writer changes streams, tables and persistent queries, and
writes rows. An admin changes the server itself: its properties, the code of its functions, and its end.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NoReturn

from penstock.security.access.roles import Identity, Role
from penstock.sql.engine.ground.errors import EngineError, ErrorCode
from penstock.sql.language import statements as s

PATHS: Final[Mapping[str, Role]] = {
    "/query-stream": Role.READER,
    "/query": Role.READER,
    "/": Role.READER,
    "/ksql": Role.READER,  # and each statement has its own
    "/ksql/terminate": Role.ADMIN,
    "/inserts-stream": Role.WRITER,
    "/close-query": Role.READER,  # for the reader's own queries
    "/info": Role.READER,
    "/healthcheck": Role.READER,
    "/clusterStatus": Role.READER,
    "/status": Role.READER,
    "/status/{command_id:path}": Role.READER,
    "/is_valid_property/{name:path}": Role.READER,
    "/v1/metadata": Role.READER,
    "/v1/metadata/id": Role.READER,
    "/chc/live": Role.READER,
    "/chc/ready": Role.READER,
    "/metrics": Role.READER,
}
STATEMENTS: Final[Mapping[type[s.Statement], Role]] = {
    s.Query: Role.READER,
    s.Print: Role.READER,
    s.Show: Role.READER,
    s.Describe: Role.READER,
    s.Explain: Role.READER,
    s.SetProperty: Role.READER,
    s.UnsetProperty: Role.READER,
    s.Define: Role.READER,
    s.Undefine: Role.READER,
    s.RunScript: Role.READER,  # the statements of the script have their own
    s.AssertTopic: Role.READER,
    s.AssertSchema: Role.READER,
    s.AssertSource: Role.READER,
    s.AssertValues: Role.READER,
    s.AssertTombstone: Role.READER,
    s.CreateSource: Role.WRITER,
    s.CreateAsSelect: Role.WRITER,
    s.InsertSelect: Role.WRITER,
    s.InsertValues: Role.WRITER,
    s.DropSource: Role.WRITER,
    s.AlterSource: Role.WRITER,
    s.CreateType: Role.WRITER,
    s.DropType: Role.WRITER,
    s.CreateConnector: Role.WRITER,
    s.DropConnector: Role.WRITER,
    s.ControlQuery: Role.WRITER,
    s.CreateFunction: Role.ADMIN,
    s.DropFunction: Role.ADMIN,
    s.AlterSystem: Role.ADMIN,
}


def refuse(identity: Identity, needs: Role) -> NoReturn:
    """Refuse a client that has not the role. Raises EngineError."""
    raise EngineError(
        f"{identity.principal} may not do this: expected the role {needs.name.lower()}", ErrorCode.FORBIDDEN
    )


def require_for(identity: Identity, statement: s.Statement) -> None:
    """Check that a client may execute a statement; one without a role needs an admin. Raises EngineError."""
    needs = STATEMENTS.get(type(statement), Role.ADMIN)
    if not identity.may(needs):
        refuse(identity, needs)
