"""Mirrors of databases: a connector captures PostgreSQL's changes, a Spark query keeps tables equal to it.

    from penstock.mirroring import Mirror, MirrorSettings

`database` checks the database and marks places in its log. `worker` is the process that runs the connector,
and `capture` its configuration. `tables` runs the query that writes Delta or Iceberg tables. `mirror` puts
them together. Brokers, and the command line, belong above.
"""

from penstock.mirroring.errors import MirrorError
from penstock.mirroring.mirror import Mirror, MirrorSettings

__all__ = ["Mirror", "MirrorError", "MirrorSettings"]
