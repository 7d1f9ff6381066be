"""A storm of random transactions on a shop's tables, which survives kills of the server.

Each row has a version that grows by one with each change, so that a change that is lost or repeated in a copy
of the log shows. Some transactions are rolled back, some change keys, and large values stay as they are
(PostgreSQL does not log these). A table and a column appear in the middle of the storm.
"""

from __future__ import annotations

import random
import threading
import time
from typing import Any, Final

ROWS: Final = 2000
"""Rows of each table before the storm."""
_PAUSE_S: Final = 0.004
"""The pause after each transaction, which limits the storm to what two cores can copy meanwhile."""
_RETRY_S: Final = 0.1
_LARGE: Final = "repeat(md5(({}::int)::text), 100)"
"""A text that is stored outside of its row."""

TABLES: Final = f"""
create schema inv;
create table inv.products (id int primary key, version int not null, name text not null, stock int not null,
    price numeric(10, 2), tags text[], made timestamptz, manual text);
alter table inv.products alter manual set storage external;
create table inv.orders (day date, number bigint, version int not null, product int, quantity smallint,
    note jsonb, primary key (day, number));
create table inv.baskets (id uuid primary key, version int not null, items int, weight double precision);
insert into inv.products select i, 1, 'product ' || i, i % 50, i * 1.01, array['new', i::text], now(),
    {_LARGE.format("i")} from generate_series(1, {ROWS}) i;
insert into inv.orders select date '2026-01-01' + i % 90, i, 1, i, i % 9, jsonb_build_object('i', i)
    from generate_series(1, {ROWS}) i;
"""
_NEW_COLUMN: Final = "alter table inv.products add column shelf text"
_NEW_TABLE: Final = "create table inv.returns (id int primary key, version int not null, reason text)"

_INSERTS: Final = {
    "products": f"""insert into inv.products (id, version, name, stock, price, tags, made, manual)
        values (%(n)s, 1, 'product ' || %(n)s, %(r)s, %(n)s / 7.0, array[%(r)s::text, null], now(),
                {_LARGE.format("%(n)s")})""",
    "orders": """insert into inv.orders values (date '2026-01-01' + %(r)s, %(n)s, 1, %(r)s, 1,
        jsonb_build_object('r', %(r)s::int))""",
    "baskets": "insert into inv.baskets values (gen_random_uuid(), 1, %(r)s, random())",
    "returns": "insert into inv.returns values (%(n)s, 1, 'reason ' || %(r)s)",
}
_UPDATES: Final = {
    "products": """update inv.products set version = version + 1, stock = %(r)s, made = now()
        where id in (select id from inv.products where id >= %(p)s order by id limit %(many)s)""",
    "orders": """update inv.orders set version = version + 1, quantity = %(r)s %% 100,
        note = note || '{"u": 1}' where number = %(p)s""",
    "baskets": """update inv.baskets set version = version + 1, weight = weight * 1.5, items = null
        where id in (select id from inv.baskets limit %(many)s)""",
    "returns": "update inv.returns set version = version + 1, reason = null where id %% 20 = %(r)s %% 20",
}
_DELETES: Final = {
    "products": """delete from inv.products
        where id in (select id from inv.products where id >= %(p)s order by id limit 1)""",
    "orders": "delete from inv.orders where number = %(p)s",
    "baskets": "delete from inv.baskets where id in (select id from inv.baskets limit 1)",
    "returns": "delete from inv.returns where id %% 50 = %(r)s %% 50",
}
_MOVES: Final = {
    "products": """update inv.products set id = %(n)s, version = 1
        where id in (select id from inv.products where id >= %(p)s order by id limit 1)""",
    "orders": "update inv.orders set day = day + 1, version = 1 where number = %(p)s",
}
_KINDS: Final = (_INSERTS, _UPDATES, _DELETES, _MOVES)
_WEIGHTS: Final = (35, 45, 12, 8)
"""How often each kind of change happens, in percent."""


class Storm:
    """The thread of a storm. ``committed`` counts the transactions, and ``changes`` their rows."""

    def __init__(self, url: str, seed: int) -> None:
        self._url = url
        self._random = random.Random(seed)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="storm", daemon=True)
        self._next = ROWS
        self._tables = ["products", "products", "orders", "baskets"]
        self.committed = 0
        self.changes = 0
        self.rolled_back = 0
        self.truncates = 0
        self.failure: Exception | None = None

    def prepare(self) -> None:
        """Make the tables, and their first rows."""
        import psycopg

        with psycopg.connect(self._url, autocommit=True) as session:
            session.execute(TABLES)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the storm after its current transaction. Raises what has ended it before."""
        self._stopping.set()
        self._thread.join()
        if self.failure is not None:
            raise self.failure

    def alter(self) -> None:
        """Add a table and a column, beside the running transactions."""
        import psycopg

        with psycopg.connect(self._url, autocommit=True) as session:
            session.execute(_NEW_TABLE)
            session.execute(_NEW_COLUMN)
        self._tables = [*self._tables, "returns"]

    def _run(self) -> None:
        import psycopg

        while not self._stopping.is_set():
            try:
                with psycopg.connect(self._url) as session:
                    while not self._stopping.is_set():
                        self._transaction(session)
                        time.sleep(_PAUSE_S)
            except psycopg.OperationalError:
                time.sleep(_RETRY_S)  # the server is killed, and starts again
            except psycopg.Error as error:
                self.failure = error
                return

    def _transaction(self, session: Any) -> None:
        rng = self._random
        if rng.random() < 0.002:
            session.execute("truncate inv.baskets")
            session.commit()
            self.truncates += 1
            return
        changed = 0
        for _ in range(rng.choice([1, 1, 2, 5, 30])):
            statements = rng.choices(_KINDS, _WEIGHTS)[0]
            table = rng.choice([each for each in self._tables if each in statements])
            self._next += 1
            values = {
                "n": self._next,
                "p": rng.randrange(self._next),
                "r": rng.randrange(90),
                "many": rng.choice([1, 1, 1, 10]),
            }
            changed += session.execute(statements[table], values).rowcount
        if rng.random() < 0.05:
            session.rollback()
            self.rolled_back += 1
            return
        session.commit()
        self.committed += 1
        self.changes += changed
