"""JSON Schema, drafts 4 to 2020-12: loaded into one model, and compared by Confluent's rules.

The rules of comparison speak of kinds of schemas (strings, numbers, objects, combinations), not of
keywords, so a document is first turned into nodes of one kind each: `{"type": "string", "enum": ["a"]}` is
an allOf of two. References are found by the `referencing` library, with ids, anchors and pointers as each
draft has them; what a document refers to has to be registered too, nothing is ever fetched.

Documents aren't validated against their meta-schemas (jsonschema takes seconds for a large one, and calls
deeper than Python allows): the loader checks each keyword it reads, and says where.
"""
