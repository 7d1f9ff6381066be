"""Change data capture from PostgreSQL's logical replication (pgoutput), with Debezium's records.

`framing` and `pgoutput` read bytes, `catalog` holds what the server's catalog says of tables and types,
`columns` and the modules of values turn texts into Connect's values, and `schemas` and `events` build records.
All of these are pure.
"""
