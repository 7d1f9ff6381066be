"""The outcome of a SQL text, as the cases write it down."""

from penstock.sql import SqlError, parse_script, print_statement
from penstock.sql.analysis import analyze
from penstock.sql.catalog import Catalog, DataSource
from penstock.sql.language.expression_printing import print_expression

# The statements that precede every case of plans.
SETTING = """
CREATE TYPE address AS STRUCT<street STRING, zip INT>;
CREATE STREAM orders (
  id INT KEY, customer BIGINT, total DOUBLE, price DECIMAL(6, 2), note STRING, tags ARRAY<STRING>,
  props MAP<STRING, INT>, home address, placed TIMESTAMP, day DATE, raw BYTES, urgent BOOLEAN
) WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON', PARTITIONS=4);
CREATE STREAM shipments (id INT KEY, order_id INT, weight DOUBLE)
  WITH (KAFKA_TOPIC='shipments', FORMAT='AVRO');
CREATE STREAM bare (a INT, b STRING) WITH (KAFKA_TOPIC='bare', FORMAT='JSON');
CREATE TABLE customers (id BIGINT PRIMARY KEY, name STRING, city STRING, referrer BIGINT)
  WITH (KAFKA_TOPIC='customers', FORMAT='JSON');
CREATE TABLE cities (name STRING PRIMARY KEY, country STRING) WITH (KAFKA_TOPIC='cities', FORMAT='JSON');
CREATE SOURCE TABLE rates (id BIGINT PRIMARY KEY, rate DOUBLE) WITH (KAFKA_TOPIC='rates', FORMAT='JSON');
CREATE TABLE hourly WITH (KAFKA_TOPIC='hourly') AS
  SELECT customer, COUNT(*) AS n FROM orders WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY customer;
"""


def outcome(sql: str) -> str:
    """Print each statement again, on one line, up to the first error."""
    lines: list[str] = []
    try:
        lines += (print_statement(each.statement) for each in parse_script(sql))
    except SqlError as error:
        lines.append(str(error))
    return "\n".join(lines)


def setting() -> Catalog:
    catalog = Catalog()
    for each in parse_script(SETTING):
        catalog = analyze(each.statement, catalog, SETTING, each.place.offset).catalog
    return catalog


def plans(sql: str) -> str:
    """Print the plan of each statement, the row it writes, or the source it makes, up to the first error."""
    catalog = setting()
    lines: list[str] = []
    try:
        for each in parse_script(sql):
            analysis = analyze(each.statement, catalog, sql, each.place.offset)
            if analysis.plan is not None:
                lines.append(str(analysis.plan))
            if analysis.row is not None:
                row = analysis.row
                values = [f"{column.name} = {print_expression(value)}" for column, value in row.values]
                if row.rowtime is not None:
                    values.append(f"at {print_expression(row.rowtime)}")
                lines.append(f"row of {row.target.name}: {', '.join(values)}")
            lines += (
                _shown(source)
                for name, source in analysis.catalog.sources.items()
                if catalog.sources.get(name) != source
            )
            lines += (f"without {name}" for name in catalog.sources if name not in analysis.catalog.sources)
            catalog = analysis.catalog
    except SqlError as error:
        lines.append(str(error))
    return "\n".join(lines)


def _shown(source: DataSource) -> str:
    columns = ", ".join(
        f"{column.name} {column.type}{'' if column.role.value == 'VALUE' else ' ' + column.role.value}"
        for column in source.columns
    )
    formats = f"{source.key_format}/{source.value_format}"
    flags = ""
    if source.window is not None:
        size_ms = source.window.size_ms
        flags += f", {source.window.kind.value}{'' if size_ms is None else f' of {size_ms} ms'}"
    if source.timestamp is not None:
        flags += f", time of {source.timestamp}"
    flags += ", read only" if source.read_only else ""
    flags += ", queryable" if source.is_queryable else ""
    return f"{source.kind.value.lower()} {source.name} ({columns}) on {source.topic} as {formats}{flags}"
