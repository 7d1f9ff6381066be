"""Avro: the schemas of columns, and rows to data and back.

What is about Avro alone belongs here. The framing by the ID of a schema belongs in
`penstock.sql.formats.registry`.
"""
