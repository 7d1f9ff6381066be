"""Parse, print and compare Protobuf schemas, given as `.proto` text or as serialized descriptors.

The model, the printed text and the rules of comparison follow Confluent's registry, which builds on Square's
Wire. The parser is our own: proto-schema-parser reads 16 KB a second, so that 1 MB would take a minute, and
it keeps no positions. The tests compare our results with it. Google's library builds and checks descriptors.
"""
