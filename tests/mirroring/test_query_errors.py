"""The error of a query is one line that says what happened, not the trace of Python and Java around it."""

from __future__ import annotations

import pytest

from penstock.mirroring.tables import cause_of

OF_PYTHON = """An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "/x/py4j/clientserver.py", line 644, in _call_proxy
    return_value = getattr(self.pool[obj_id], method)(*params)
  File "/x/penstock/spark/changes/batches.py", line 71, in _edit
    changed = fitted(collected.rows, columns)
ValueError: the column 'n' has the type int32 in the table and int64 in the changes
=== Streaming Query ===
Identifier: [id = 20ac0e9a, runId = 071adbd3]
\tat py4j.Protocol.getReturnValue(Protocol.java:476)
Caused by: py4j.Py4JException: An exception was raised by the Python Proxy.
"""
OF_JAVA = """An exception was raised by the Python Proxy. Return Message: Traceback (most recent call last):
  File "/x/pyspark/sql/classic/dataframe.py", line 504, in collect
    sock_info = self._jdf.collectToPython()
py4j.protocol.Py4JJavaError: An error occurred while calling o1.collectToPython.
: org.apache.spark.SparkException: Job aborted
\tat org.apache.spark.Executor.run(Executor.scala:1)
Caused by: org.apache.spark.SparkException: malformed
Caused by: org.apache.spark.SparkDateTimeException: The value 'x' cannot be cast to "TIMESTAMP"
\t... 34 more
"""


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (OF_PYTHON, "ValueError: the column 'n' has the type int32 in the table and int64 in the changes"),
        (OF_JAVA, "The value 'x' cannot be cast to \"TIMESTAMP\""),
        ("something else\nmore", "something else"),
    ],
)
def test_the_line_that_says_what_happened(text: str, cause: str) -> None:
    assert cause_of(text) == cause
