"""Random transactions on a server, over several sessions whose transactions overlap, and what they did."""

import random
from typing import Any, NamedTuple

import psycopg

TABLES = """
create type weather as enum ('sunny', 'rainy');
create table wide (id int primary key, t text, n numeric(20,4), f float8, b bool, ts timestamptz, d date,
    j jsonb, a int[], u uuid, by bytea, w weather, iv interval, big text);
alter table wide alter big set storage external;
create table full_row (id int primary key, t text, n numeric);
alter table full_row replica identity full;
create table changed (id int primary key, t text);
create table left_out (id int primary key, t text);
create table watermarks (id int primary key);
"""
ROW = """insert into wide
    select i, md5(i::text), i / 7.0, sqrt(i), i % 2 = 0, to_timestamp(i * 1e5), date '2020-01-01' + i,
    jsonb_build_object('i', i), array[i, null, -i], md5(i::text)::uuid, decode(md5(i::text), 'hex'),
    case when i % 3 = 0 then 'sunny'::weather end, i * interval '1 minute', repeat(md5(i::text), 100)
    from generate_series({first}, {last}) i"""


class Change(NamedTuple):
    """A change as a record shows it: table, operation and id."""

    table: str
    operation: str
    row_id: int


class Storm:
    """Makes random transactions. `changes` has those that committed, in the order of commits."""

    def __init__(self, where: str, rng: random.Random, sessions: int = 3) -> None:
        self._rng = rng
        self._where = where
        self._maintenance = psycopg.connect(where, autocommit=True)
        self._maintenance.execute(TABLES)
        self._sessions: list[psycopg.Connection[Any] | None] = [None] * sessions
        self._open: list[list[Change]] = [[] for _ in range(sessions)]
        self._owned: list[dict[str, list[int]]] = [{} for _ in range(sessions)]
        self._next_id = 1
        self._columns = 0
        self.changes: list[Change] = []
        self.alters = True
        """Whether columns change too; not while a snapshot locks the tables."""

    def step(self) -> None:
        """Change something in one of the sessions, commit it or roll it back, or alter a table."""
        place = self._rng.randrange(len(self._sessions))
        choice = self._rng.random()
        if choice < 0.03:
            if self.alters:
                self._alter()
        elif choice < 0.2:
            self._finish(place, commits=True)
        elif choice < 0.24:
            self._finish(place, commits=False)
        else:
            self._change(place)

    def finish(self) -> int:
        """Commit all, and write a row that marks the end; returns its id."""
        for place in range(len(self._sessions)):
            self._finish(place, commits=True)
        self._next_id += 1
        self._maintenance.execute("insert into watermarks values (%s)", [self._next_id])
        self.changes.append(Change("watermarks", "c", self._next_id))
        return self._next_id

    def lose_sessions(self) -> None:
        """Forget what the server rolled back, because it was restarted."""
        self._sessions = [None] * len(self._sessions)
        self._open = [[] for _ in self._sessions]
        self._owned = [{} for _ in self._sessions]
        self._maintenance = psycopg.connect(self._where, autocommit=True)

    def close(self) -> None:
        for session in [*self._sessions, self._maintenance]:
            if session is not None:
                session.close()

    def _change(self, place: int) -> None:
        table = self._rng.choice(["wide", "full_row", "changed", "left_out"])
        owned = self._owned[place].setdefault(table, [])
        operation = self._rng.choice("ccuudk") if owned else "c"
        session = self._session(place)
        made: list[Change] = []
        if operation == "c":
            count = self._rng.choice([1, 1, 2, 40])
            first, self._next_id = self._next_id, self._next_id + count
            ids = range(first, first + count)
            if table == "wide":
                session.execute(ROW.format(first=first, last=first + count - 1).encode())
            else:  # COPY writes many rows at one position
                with session.cursor().copy(f"copy {table} (id, t) from stdin".encode()) as copy:
                    copy.write("".join(f"{each}\ttext {each}\n" for each in ids))
            owned += ids
            made = [Change(table, "c", each) for each in ids]
        elif operation == "d":
            row_id = owned.pop(self._rng.randrange(len(owned)))
            session.execute(f"delete from {table} where id = {row_id}".encode())
            made = [Change(table, "d", row_id)]
        elif operation == "k":
            row_id = owned.pop(self._rng.randrange(len(owned)))
            new_id, self._next_id = self._next_id, self._next_id + 1
            owned.append(new_id)
            session.execute(f"update {table} set id = {new_id} where id = {row_id}".encode())
            made = [Change(table, "d", row_id), Change(table, "c", new_id)]
        else:
            row_id = self._rng.choice(owned)
            session.execute(f"update {table} set t = t || '.' where id = {row_id}".encode())
            made = [Change(table, "u", row_id)]
        self._open[place] += made if table != "left_out" else []

    def _session(self, place: int) -> psycopg.Connection[Any]:
        session = self._sessions[place]
        if session is None:
            session = self._sessions[place] = psycopg.connect(self._where)
        return session

    def _finish(self, place: int, commits: bool) -> None:
        session = self._session(place)
        if commits:
            session.commit()
            self.changes += self._open[place]
        else:
            session.rollback()
        self._open[place], self._owned[place] = [], {}

    def _alter(self) -> None:
        """Change the columns of a table that no open transaction has changed."""
        if any("changed" in owned for owned in self._owned):
            return
        self._columns += 1
        number = self._columns
        for statement in self._rng.choice(
            [
                [f"alter table changed add c{number} int default {number}"],
                [f"alter table changed rename t to u{number}", f"alter table changed rename u{number} to t"],
                [f"alter table changed add n{number} text", f"alter table changed drop n{number}"],
                ["alter table changed alter t set not null"],
                ["alter table changed alter t drop not null"],
                ["alter table changed replica identity full"],
                ["alter table changed replica identity default"],
                ["alter type weather add value if not exists 'foggy'"],
            ]
        ):
            self._maintenance.execute(statement.encode())
