"""The converter of JSON, with or without schemas, as Connect's JsonConverter. Pure.

`writing` and `reading` make a function of each schema, so that a record costs only the calls for its values.
"""
