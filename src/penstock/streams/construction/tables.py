"""Tables made of topics, of streams, and of other tables whose updates are held back."""

from __future__ import annotations

from typing import Any, TypeVar

from penstock.streams.builder import Builder
from penstock.streams.construction.handles import StreamHandle, TableHandle
from penstock.streams.suppressing import Suppressed
from penstock.topology.errors import TopologyError
from penstock.topology.graph import Node
from penstock.topology.operators.suppress import Suppress
from penstock.topology.operators.tables import TableSource
from penstock.topology.stores.buffers import ChangeBufferSpec
from penstock.topology.stores.state_stores import KeyValueSpec, StoreSpec, VersionedSpec

K = TypeVar("K")
V = TypeVar("V")


def source_table(
    builder: Builder,
    parent: Node,
    spec: StoreSpec,
    node_name: str,
    *,
    topics: frozenset[str],
    stored: bool,
) -> TableHandle[Any, Any]:
    """Create the table of a topic."""
    if spec.name in builder.topology.stores:
        raise TopologyError(f"two stores are named {spec.name}: give one of them another name")
    operator = TableSource(None)
    node = builder.processor(node_name, operator, [parent])
    made: TableHandle[Any, Any] = TableHandle(
        builder, node, operator, spec, key=spec.key, value=spec.value, topics=topics
    )
    if stored:
        made.store()
    return made


def stream_as_table(
    stream: StreamHandle[K, V], *, store: str | None, logged: bool, name: str | None
) -> TableHandle[K, V]:
    """Create the table that a stream's records update."""
    builder = stream.builder
    node_name = builder.name(name, "KSTREAM-TOTABLE-")
    store_name = builder.store_name(store, "KSTREAM-TOTABLE-")
    if stream.rekeyed:
        stream = stream.repartitioned(node_name, f"to_table() as {node_name}")
    spec = KeyValueSpec(
        name=store_name,
        key=builder.key_serde(stream.key, f"store {store_name}"),
        value=builder.value_serde(stream.value, f"store {store_name}"),
        logged=logged,
    )
    operator = TableSource(None)
    node = builder.processor(node_name, operator, [stream.node])
    made: TableHandle[K, V] = TableHandle(
        builder, node, operator, spec, key=spec.key, value=spec.value, topics=stream.topics
    )
    if store is not None:
        made.store()
    return made


def suppress(table: TableHandle[K, V], until: Suppressed, name: str | None) -> TableHandle[K, V]:
    """Create the table whose updates are those of another, held back."""
    if isinstance(table.spec, VersionedSpec):
        raise TopologyError(f"suppress holds back rows, so {table} can't be versioned")
    builder, final = table.builder, until.wait_ms is None
    wait_ms = table.final_after_ms if until.wait_ms is None else until.wait_ms
    node_name = builder.name(name, "KTABLE-SUPPRESS-")
    buffer = builder.store_name(None if name is None else f"{name}-store", "KTABLE-SUPPRESS-")
    table.send_old_values()
    builder.topology.add_store(
        ChangeBufferSpec(
            name=buffer,
            key=builder.key_serde(table.key, f"store {buffer}"),
            value=builder.value_serde(table.value, f"store {buffer}"),
        )
    )
    operator = Suppress(buffer, table.operator, wait_ms, until.limit, final=final)
    operator.sends_old = True
    node = builder.processor(node_name, operator, [table.node], [buffer])
    return TableHandle(
        builder,
        node,
        operator,
        None,
        key=table.key,
        value=table.value,
        topics=table.topics,
        parent=table,
    )
