"""Protobuf: the schemas of columns, and rows to messages and back.

What is about Protobuf alone belongs here. Its library loads slowly, so it is imported only where it is used.
"""
