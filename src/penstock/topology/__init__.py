"""The computation of a streams application: records, serdes, nodes, state stores and tasks.

`penstock.streams` builds topologies from this package, and `penstock.spark` runs their tasks. Code here is
pure: it does no I/O and does not depend on Spark.
"""
