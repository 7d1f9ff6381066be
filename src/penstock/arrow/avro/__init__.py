"""Convert columns of Avro data to Arrow and back, reading all rows of a batch field by field, not row by row.

`mapping` determines the column of a schema, `resolution` how one schema's data is read by another schema,
`reading` reads it, and `writing` writes columns. Only code specific to Avro belongs here.
"""
