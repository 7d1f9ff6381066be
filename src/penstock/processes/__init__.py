"""Nodes and registries as child processes: starting them, waiting until they serve, and ending them.

`penstock.testing.Cluster` and `penstock start --brokers N` run them this way. A child ends when its parent
ends, even if the parent is killed. A module enters this package if it starts, watches or ends a process of
Penstock on this machine; it does not import what runs in that process.
"""
