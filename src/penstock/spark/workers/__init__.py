"""Spark's Python worker processes, which run one task after another: what a process keeps between its tasks.

The package holds the clients that tasks share and the settings of garbage collection. Everything that runs in
a task may import it, so it imports nothing else from `penstock.spark`.
"""
