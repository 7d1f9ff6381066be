"""Columns of JSON documents to Arrow and back.

`reading` reads documents of a type by Arrow's parser; `mapping` says which column a JSON Schema is, and
`by_schema` reads documents into it; `writing` writes columns, and says which schema they have.
"""
