"""Statements about connectors, which the server passes to a cluster of Connect (`ksql.connect.url`).

Connectors are not part of the service: the workers keep them, and other tools see and change them too.
"""

from penstock.sql.engine.connectors.statements import Connectors

__all__ = ["Connectors"]
