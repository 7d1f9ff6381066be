"""Change data capture: databases whose changes become records of topics, in the shape of Debezium's.

One room per database: `postgres`, and `mysql` for MySQL and MariaDB. What both need stands beside them:
`selection` filters and masks, `modes` and `civil` shape values, `envelope`, `naming` and `transactions` make
parts of records, `batches` passes them to the task, and `configuration` defines keys.
"""
