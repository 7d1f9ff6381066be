"""The computation of a streams application: records, serdes, nodes, state stores and tasks.

`penstock.streams` builds topologies from this package, and `penstock.spark` runs their tasks. Code here is
pure: it does no I/O and does not depend on Spark.

    stores       state, over one ordered map of bytes per task
    operators    stateless operators, tables, suppression, user code
    joins        two streams, streams and tables, foreign keys
    aggregates   grouped streams and tables, with and without windows
    tasks        runs a sub-topology on a partition
    plans        descriptions and parts of topologies

`graph` defines the nodes, `context` what the nodes of one task share, and `records`, `serdes`, `errors`,
`windows`, `vectorised` and `collected` what all rooms use.
"""
