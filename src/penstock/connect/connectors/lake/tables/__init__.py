"""The common parts of sinks into tables: rows are staged, and committed with the offsets that they cover.

A table keeps, for each partition of a topic, the offset behind the last record that it has. The offset is in
the same commit as the rows, so a record is never in a table twice, whatever was read again. The offsets of
the consumer's group follow: they only decide where reading begins.
"""
