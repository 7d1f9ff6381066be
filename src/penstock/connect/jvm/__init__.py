"""Apache Kafka Connect's own worker in a JVM, for plugins that exist only in Java.

Penstock starts it and gives it defaults; its jars come from the user.
"""

from penstock.connect.jvm.java_worker import JavaWorker, worker_jars, worker_properties

__all__ = ["JavaWorker", "worker_jars", "worker_properties"]
