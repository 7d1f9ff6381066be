"""Streams applications: run a topology as one Spark query.

How a topology is defined and what its tasks do belongs in `penstock.topology`. The rooms, each of which
imports only those above it:

    blocks     thousands of records as one binary value, the rows of the query
    planning   which parts of a topology run where, and the options of source and sink
    state      what is kept beyond a batch: stores as logs of segments, and the times of tasks
    tasks      what a worker process runs for a batch, on either side of the shuffle
    query      what Spark sees: the source, the stateful operator, the sink, the session
    running    start, follow, stop and reset an application
    stages     one stage of an application as a DataFrame
"""
