"""Plans: which parts of a topology run on which side of the shuffle, and what the query is started with.

The package holds what every process of a query is given: the plan, the numbers that rows are shuffled by, and
the options of source and sink. Nothing here connects to a cluster or to Spark.
"""
