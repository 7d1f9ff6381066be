"""Protobuf: `.proto` files as text, or as the serialized descriptor that clients send, in one model.

The model, the printed text and the rules of comparison are those that Confluent's registry has on top of
Square's Wire. The parser is our own: proto-schema-parser reads 16 KB a second, so that 1 MB would take a
minute, and keeps no positions; it is an oracle in the tests. Descriptors are built and checked by Google's
library.
"""
