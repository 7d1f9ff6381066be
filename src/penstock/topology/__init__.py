"""What a streams application computes: records, serdes, nodes, state stores and tasks. Pure: no I/O, no
Spark.
"""
