"""Convert columns of Protobuf messages to Arrow and back, with the framing of Confluent's serializers.

`mapping` determines the column of a message. `reading` reads messages, by `columns` or by Google's parser
with the descriptor of `parsing`. `writing` writes columns field by field, with a given schema or one of
`made_schema`. Only code specific to Protobuf belongs here.
"""
