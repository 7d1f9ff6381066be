"""The metrics of a SQL server: queries by state, their failures and records, and rows of readers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.routing import Route
from starlette.types import Scope

from penstock.sql.engine.running.host import QueryStatus
from penstock.sql.engine.showing.figures import Figures
from penstock.web.metrics import OTHER, EndpointOf


class SqlMetrics(Collector):
    """The collector of a server. ``figures`` are its engine's, and ``rows`` those that clients have read."""

    def __init__(self, figures: Callable[[], Figures], rows: Callable[[], int]) -> None:
        self._figures = figures
        self._rows = rows

    def collect(self) -> Iterable[Metric]:
        figures = self._figures()
        queries = GaugeMetricFamily(
            "penstock_sql_queries", "Persistent queries by their state.", labels=["state"]
        )
        counts = Counter(figures.states.values())
        for status in QueryStatus:
            queries.add_metric([status.value], counts[status])
        yield queries
        failures = CounterMetricFamily(
            "penstock_sql_query_failures",
            "Failures of a persistent query, counted within 5 s.",
            labels=["query"],
        )
        for query_id in figures.states:
            failures.add_metric([query_id], figures.failures.get(query_id, 0))
        yield failures
        read = CounterMetricFamily(
            "penstock_sql_records_read",
            "Records that a persistent query has read from a topic.",
            labels=["query", "topic"],
        )
        written = CounterMetricFamily(
            "penstock_sql_records_written",
            "Records that a persistent query has written to a topic.",
            labels=["query", "topic"],
        )
        for moved, count in figures.records.items():
            (written if moved.is_written else read).add_metric([moved.query_id, moved.topic], count)
        yield from (read, written)
        yield GaugeMetricFamily(
            "penstock_sql_push_queries", "Push queries of clients that run now.", figures.push_queries
        )
        yield CounterMetricFamily(
            "penstock_sql_rows_inserted",
            "Rows written by INSERT VALUES and /inserts-stream.",
            figures.inserted_rows,
        )
        yield CounterMetricFamily(
            "penstock_sql_rows_read", "Rows read by SELECT and PRINT of clients.", self._rows()
        )


def endpoint_of(routes: Sequence[Route]) -> EndpointOf:
    """Return the function that finds the path of the route of a request."""
    exact = {route.path for route in routes if not route.param_convertors}
    others = [route for route in routes if route.param_convertors]

    def find(scope: Scope) -> str:
        path: str = scope["path"]
        if path in exact:
            return path
        return next((route.path_format for route in others if route.path_regex.match(path)), OTHER)

    return find
