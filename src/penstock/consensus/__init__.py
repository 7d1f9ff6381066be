"""Implements Kafka's Raft, by which the controllers agree on the metadata log (KRaft).

This package is a state machine: elections, replication of the log, and changes of the voters. Only code
without clock, disk and network belongs here. The node passes in time and messages, implements the log, and
carries out the effects.
"""
