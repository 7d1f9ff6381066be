"""Columns of JSON documents to Arrow and back.

`reading` reads documents of a type, mostly `at_once` by Arrow's parser; `times` are texts in them; `mapping`
says which column a JSON Schema is; `writing` writes columns, and says which schema they have.
"""
