"""Formats with a schema registry: rows framed by the ID of a schema, and statements that use schemas.

What connects a format to the registry belongs here: registration of schemas and inference of columns.
"""
