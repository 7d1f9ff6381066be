"""The sink for OpenSearch and Elasticsearch, by their common bulk API.

    definition   the keys, as Aiven's and Confluent's connectors have them
    mapping      mappings of Connect's schemas
    documents    documents, their ids and versions, of records
    bulk         bulk requests, and what their answers say of each document
    indices      makes indices and data streams when records first need them
    task         the task that puts these together, and the connector

A document's version is its record's offset, so that a record that is written again changes nothing. Both
engines refuse such a version with 409. HTTP alone is needed, so the client is that of `connectors.http`: the
engines' own clients for Python refuse to speak to each other's servers.
"""

from penstock.connect.connectors.search.task import SearchSinkConnector, SearchSinkTask

__all__ = ["SearchSinkConnector", "SearchSinkTask"]
