"""Transforms of records between a connector and its topics, as Kafka Connect ships them. Pure.

    transform            the interfaces of transforms and predicates
    chain                the stages of a connector, from its configuration
    fields               transforms of the fields of keys and values
    timestamp_converter  other forms of timestamps
    headers, routing     transforms of headers and topics
    filtering            predicates, and the transform that drops what they select
    names                the names of Java's classes, by which configurations find all these

Nothing here converts bytes or retries: the worker that runs the stages handles their errors.
"""

from penstock.connect.transforms.chain import Chain, Stage, build_chain
from penstock.connect.transforms.names import PREDICATES, TRANSFORMS
from penstock.connect.transforms.transform import Predicate, Transform

__all__ = ["PREDICATES", "TRANSFORMS", "Chain", "Predicate", "Stage", "Transform", "build_chain"]
