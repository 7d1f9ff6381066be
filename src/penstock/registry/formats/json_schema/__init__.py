"""Load JSON Schema, drafts 4 to 2020-12, into one model and compare schemas by Confluent's rules.

The rules of comparison apply to kinds of schemas (strings, numbers, objects, combinations), not to keywords.
So a document is first turned into nodes of one kind each: `{"type": "string", "enum": ["a"]}` becomes an
allOf of two nodes. The `referencing` library finds references, with ids, anchors and pointers as each draft
defines them. A document that is referred to must be registered too; nothing is ever fetched.

Documents aren't validated against their meta-schemas, because jsonschema takes seconds for a large one and
recurses deeper than Python allows. Instead the loader checks each keyword it reads and reports the path.
"""
