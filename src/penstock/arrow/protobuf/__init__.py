"""Columns of Protobuf messages to Arrow and back, as the Confluent serializers frame them.

`mapping` says which column a message is, `reading` reads messages by Google's parser, `writing` writes
columns field by field, `indexes` says which message of a file stands behind an id.
"""
