"""The classes of Kafka Streams' DSL, whose operations users chain: streams, tables, and their groups.

The package holds what users see: names, types and explanations of operations. What an operation adds to the
topology belongs in `penstock.streams.construction`.

Imports run one way, from streams over groups to tables, with one exception: `Table.to_stream` returns a
stream. Both types name each other in public, as KStream and KTable do, so one of the two modules has to
import the other one back.
"""
