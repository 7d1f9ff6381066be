"""A worker: one process that runs connectors and tasks, with its herder and its REST API.

    from penstock.connect.worker import start

    with start({"bootstrap.servers": "localhost:9092"}) as worker:
        print(worker.url)
        worker.join()

This is the room in which the others meet: it reads the worker's properties, makes plugins and clients from
the configurations of connectors, and runs what the herder asks for.
"""

from penstock.connect.worker.assembly import Worker, start
from penstock.connect.worker.collections import calm_garbage_collector

__all__ = ["Worker", "calm_garbage_collector", "start"]
