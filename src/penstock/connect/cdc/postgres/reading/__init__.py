"""Reads a PostgreSQL server: its catalog, snapshots of its tables, and its replication stream.

`capture` runs the others on a thread of its own and hands records over; everything here needs psycopg.
"""

from penstock.extras import needs_extra

with needs_extra("cdc", "penstock.connect.cdc.postgres.reading"):
    import psycopg as psycopg  # fail here, with the command that installs it
