"""Settings for librdkafka's consumers that read what there is and no further."""

#: A fetch that finds nothing tells the end, and brokers would hold it back for librdkafka's 500 ms.
TO_THE_END = {"enable.partition.eof": True, "fetch.wait.max.ms": 10}
