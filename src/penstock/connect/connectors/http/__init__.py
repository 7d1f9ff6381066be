"""Connectors for HTTP APIs: a source that polls one, and a sink that sends records to one.

    exchange   requests and their answers: connections, authorization, TLS, how long to wait after a refusal
    delivery   what sinks need to send a batch in parallel, in order for each key, and to repeat only the rest
    templates  URLs and texts with places for values, such as ${key}
    source     polls an API page by page and makes records of the items
    sink       makes requests of records

`exchange` and `delivery` serve the connector for search engines as well.
"""
