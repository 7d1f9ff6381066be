"""Reads a server of MySQL or MariaDB: snapshots, the binary log, and the catalog beside them."""
