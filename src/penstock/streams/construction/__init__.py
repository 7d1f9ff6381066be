"""The construction of operators: nodes, stores and topics, under the names that Kafka Streams gives them.

The functions here take and return **handles** (`penstock.streams.construction.handles`), which are what an
operator needs to know of the stream or the table that it reads. Nothing here knows the classes of
`penstock.streams.dsl`, which wrap the handles for users.
"""
