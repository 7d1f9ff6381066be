"""Kafka Connect's data model in Python: schemas, structs and records. Pure.

| type | value in Python |
| --- | --- |
| INT8, INT16, INT32, INT64 | int |
| FLOAT32, FLOAT64 | float |
| BOOLEAN, STRING, BYTES | bool, str, bytes |
| ARRAY, MAP | list, dict |
| STRUCT | `Struct` |
| the logical types Decimal, Date, Time, Timestamp | Decimal, date, time, datetime with UTC |

A value without a schema is any of these; its structs are dicts. Integers without a schema are Java's Long,
and floats its Double. `values` converts values and infers them from text, as Connect's class Values does.
Only `json_text` reads and writes bytes: JSON without schemas, in which workers also store their state.
"""
