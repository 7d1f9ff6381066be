"""The node, which serves Kafka's protocol as a broker, as a controller or as both.

This package connects the parts that decide and store to sockets, threads, timers and other nodes, all on one
event loop. `node.Broker` builds the parts of a node, starts them and stops them. Code enters this package if
it needs a running node: connections, request handlers, replicas, and the runtimes of coordinators and of the
quorum. Decisions belong in `metadata`, `coordinators` and `consensus`, and file formats in `storage`.
"""
