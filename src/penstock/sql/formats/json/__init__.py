"""JSON: rows to texts and back, the conversion of values, and JSON_SR's schemas.

What is about JSON alone belongs here. The framing by the ID of a schema belongs in
`penstock.sql.formats.registry`.
"""
