"""Columns of Avro data to Arrow: all rows of a batch are read field by field, not row by row.

`mapping` says which column a schema is, `resolution` how data of one schema is read by another one,
`reading` does it.
"""
