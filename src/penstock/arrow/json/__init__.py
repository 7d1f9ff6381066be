"""Convert columns of JSON documents to Arrow and back; only code specific to JSON belongs here.

`reading` reads documents into a type, mostly `at_once` with Arrow's parser. `times` parses times in them.
`mapping` determines the column of a JSON Schema. `writing` writes columns and derives their schemas.
"""
