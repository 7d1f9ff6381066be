"""Penstock and Apache Kafka side by side: the same rows, machine, disk and clients, one broker at a time."""
