"""Columns of Protobuf messages to Arrow and back, as the Confluent serializers frame them.

`mapping` says which column a message is; `reading` reads messages, by `columns` or by Google's parser, which
sees them as `parsing` has them; `writing` writes columns field by field, by a schema that was given or that
`made_schema` made; `indexes` says which message of a file stands behind an id.
"""
