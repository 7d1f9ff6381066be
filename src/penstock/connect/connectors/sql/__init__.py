"""Connectors for SQL databases by SQLAlchemy: rows become records, and records become rows.

    source      reads tables or a query again and again
    sink        inserts, updates and deletes rows
    dialects    what differs between databases: SQL, catalogs, types
    urls        addresses, SQLAlchemy's and JDBC's
    connecting  connections, with attempts
    settings    the configurations that source and sink share
    names       names of tables
    failures    tells errors of rows from those that pass

Names, defaults and stored offsets are those of Confluent's JDBC connectors.
"""
