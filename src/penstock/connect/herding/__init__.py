"""Herds connectors and tasks: decides what runs where, and answers the operations of the REST API.

`herder` is the interface of both herders, the distributed and the standalone one. `entities` are the answers
of their operations, as the REST API shows them, and `errors` are their refusals. A herder runs no connector
or task itself: `runtime` is the interface of the part of a worker that does. Herders know neither HTTP
servers nor plugins.
"""
