"""Change capture from the binary logs of MySQL and MariaDB, with Debezium's records.

`events`, `table_maps` and `row_images` read bytes, `values` and `schemas` shape what they found, `records`
makes records, and `catalog` and `ddl` add what the log lacks. All of these are pure. `reading` connects to
a server, and `source` has the connectors and their task.

Debezium parses all DDL to know a table's columns at the time of each change, and keeps it in a topic of its
own (the schema history). Here the log itself must describe tables (``binlog_row_metadata=FULL``, MySQL 8.0.1
and MariaDB 10.5), so nothing has to be parsed, stored or recovered, and no schema can be missing.
"""
