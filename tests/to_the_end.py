"""Settings for librdkafka consumers that stop at the end of the log."""

TO_THE_END = {"enable.partition.eof": True, "fetch.wait.max.ms": 10}
"""A fetch without records reports the end, and brokers would delay its answer for librdkafka's 500 ms."""
