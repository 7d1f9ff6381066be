"""Parts of the shell: scripts into statements, rows into columns, answers of every kind, completion."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document
from rich.cells import cell_len
from sql_service import Service

from penstock.cli.sql_shell.completion import Names, SqlCompleter
from penstock.cli.sql_shell.entities import failure_of, print_entities, type_of
from penstock.cli.sql_shell.printing import Output, Printer
from penstock.cli.sql_shell.rest import Refused, Rest, Unreachable
from penstock.cli.sql_shell.rows import RowTable, columns_of
from penstock.cli.sql_shell.script import is_complete, statements_of
from penstock.cli.sql_shell.session import Session
from penstock.sql.engine.ground import entities as e

# Scripts


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        (" ;; -- nothing\n /* ; */ ;", []),
        ("a b; c", ["a b;", "c"]),
        ("select ';' , \"x;y\", `a``;b` from x; y;", ["select ';' , \"x;y\", `a``;b` from x;", "y;"]),
        ("a -- ; not\n b /* ; */ c;\nd;", ["a -- ; not\n b /* ; */ c;", "d;"]),
        ("OUTPUT json\nshow topics;", ["OUTPUT json", "show topics;"]),
        ("server http://h:1;\nx;", ["server http://h:1;", "x;"]),
        ("x; exit", ["x;", "exit"]),
        ("select help from x;", ["select help from x;"]),
        ("a 'open; b;", ["a 'open; b;"]),
        ("a /* open; b;", ["a /* open; b;"]),
        ("it''s;", ["it''s;"]),
    ],
)
def test_a_text_is_cut_where_its_statements_end(text: str, found: list[str]) -> None:
    assert [each.text for each in statements_of(text)] == found


def test_statements_know_their_places_and_words() -> None:
    first, second = statements_of("\n  show 'x' topics;\n\n\tPrint \"y\" /* z */ Limit 3")
    assert (first.place.line, first.place.column, first.words) == (2, 3, ("SHOW", "TOPICS"))
    assert (second.place.line, second.place.column, second.words) == (4, 2, ("PRINT", "LIMIT", "3"))
    assert (first.is_ended, second.is_ended) == (True, False)
    assert [each.is_local for each in statements_of("quit;\nhelp\nselect 1;")] == [True, True, False]


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("", True),
        ("select", False),
        ("select 1;", True),
        ("select 1; select", False),
        ("select ';", False),
        ("select 1; -- end", True),
        ("select 1 -- end;", False),
        ("help", True),
        ("spool x.txt", True),
    ],
)
def test_enter_ends_what_is_complete(text: str, complete: bool) -> None:
    assert is_complete(text) is complete


# Rows


def test_columns_are_read_from_a_header() -> None:
    schema = (
        "`A` BIGINT KEY, `b``,c` STRUCT<`X, Y` DECIMAL(4, 2), `Z` MAP<STRING, INTEGER>>, `D` ARRAY<STRING>"
    )
    assert columns_of(schema) == [
        ("A", "BIGINT"),
        ("b`,c", "STRUCT<`X, Y` DECIMAL(4, 2), `Z` MAP<STRING, INTEGER>>"),
        ("D", "ARRAY<STRING>"),
    ]
    assert columns_of("") == []


def lines_of(schema: str, width: int, *rows: tuple[list[Any], bool]) -> list[str]:
    shown: list[str] = []
    table = RowTable(schema, width, shown.append)
    for row in rows:
        table.add([row])
    return [line for text in shown for line in text.splitlines()]


def test_values_are_shown_as_people_read_them() -> None:
    schema = "`I` INTEGER, `S` STRING, `B` BOOLEAN, `A` ARRAY<INTEGER>, `N` DOUBLE"
    lines = lines_of(
        schema, 120, ([1, "a  b", True, [1, None], 1.5], False), ([None, "", False, {}, 2.0], False)
    )
    assert [line.split() for line in lines[2:]] == [
        ["1", "a", "b", "true", "[1,", "null]", "1.5"],
        ["null", "false", "{}", "2.0"],
    ]


def test_a_row_that_was_deleted_shows_it() -> None:
    lines = lines_of("`K` INTEGER, `V` STRING", 80, ([1, None], True))
    assert lines[-1].split() == ["1", "<TOMBSTONE>"]


@pytest.mark.parametrize("width", [24, 40, 80])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    schema = "`ID` BIGINT, `TEXT` STRING, `WIDE` STRING"
    rows = [([10**18, "word " * 30, "日本語" * 20], False), ([1, "two\nlines", ""], False)]
    lines = lines_of(schema, width, *rows)
    assert max(map(cell_len, lines)) <= width
    text = "".join(lines)
    assert (text.count("日"), text.count("w"), text.count("0")) == (20, 30 + 1, 18)


def test_narrow_columns_leave_their_room_to_wide_ones() -> None:
    head, rule, row = lines_of("`A` BOOLEAN, `B` STRING", 60, ([True, "x" * 45], False))
    assert head.split() == ["A", "B"]
    assert row.split() == ["true", "x" * 45]
    assert len(rule) <= 60


def test_columns_may_have_a_width_and_values_be_cut() -> None:
    lines: list[str] = []
    schema = "`A` STRING, `WIDE` STRING"
    table = RowTable(schema, 80, lines.append, wrap=False, column_width=6)
    table.add([(["x", "日本語日本語"], False), (["two\nlines", "123456"], False)])
    assert lines == ["A       WIDE", "──────  ──────", "x       日本 …", "two l…  123456"]


def test_set_cli_has_a_line_of_its_own() -> None:
    text = "SET CLI WRAP OFF\nset cli column-width 5;\nSET 'a'='b';"
    found = statements_of(text)
    assert [(each.text, each.is_local) for each in found] == [
        ("SET CLI WRAP OFF", True),
        ("set cli column-width 5;", True),
        ("SET 'a'='b';", False),
    ]


# Answers


SOURCE = e.SourceInfo("STREAM", "S", "topic", "KAFKA", "JSON", False)
FIELDS = (
    e.FieldInfo("ID", e.SchemaInfo("INTEGER"), "KEY"),
    e.FieldInfo("H", e.SchemaInfo("BYTES"), "HEADER", "origin"),
    e.FieldInfo(
        "V", e.SchemaInfo("MAP", member_schema=e.SchemaInfo("ARRAY", member_schema=e.SchemaInfo("DOUBLE")))
    ),
)
QUERY = e.RunningQuery(
    "CREATE\n  STREAM x", ("X",), ("x",), "CSAS_X_1", {"RUNNING": 1}, "PERSISTENT", "RUNNING"
)
OFFSETS = e.QueryOffsets("group", (e.TopicOffsets("topic", (e.PartitionOffsets(0, 1, 12, 5),)),))
DESCRIBED = e.SourceDescription(
    *(
        "S",
        "TUMBLING",
        (QUERY,),
        (),
        FIELDS,
        "TABLE",
        "TS",
        "numbers",
        "",
        True,
        "KAFKA",
        "JSON",
        "topic",
        3,
        2,
    ),
    *("CREATE TABLE S;", (OFFSETS,), ("CHILD",)),
)
EXPLAINED = e.QueryDescription(
    *("CSAS_X_1", "CREATE STREAM x", None, FIELDS, ("S",), ("X",), "Sub-topology: 0", "project", {"a": "b"}),
    *({}, "PERSISTENT", (e.QueryError(0, "it failed"),), (), "group", "RUNNING"),
)
FUNCTION = e.FunctionInfo((e.ArgumentInfo("x", "INT", "a number", True),), "BIGINT", "in this way")
ANSWERS = [
    (e.CommandStatusEntity(
        statement_text="t", command_id="c", command_status=e.CommandStatus("SUCCESS", "Stream created"),
        command_sequence_number=1), ["Stream created"]),
    (e.WarningEntity(statement_text="t", message="it is there"), ["it is there"]),
    (e.TerminateQueryEntity(statement_text="t", query_id="q", was_terminated=True), ["Query q terminated."]),
    (e.StreamsList(statement_text="t", streams=(SOURCE,)), ["NAME", "topic", "KAFKA", "JSON", "no"]),
    (e.TablesList(statement_text="t", tables=(SOURCE,)), ["NAME", "topic"]),
    (e.TopicsList(statement_text="t", topics=(e.TopicInfo("a", (3, 3)),)), ["a", "2", "3"]),
    (e.TopicsListExtended(statement_text="t", topics=(e.TopicInfoExtended("a", (1,), 4, 5),)), ["4", "5"]),
    (e.Queries(statement_text="t", queries=(QUERY,)), ["CSAS_X_1", "RUNNING", "CREATE STREAM x"]),
    (e.SourceDescriptionEntity(statement_text="t", source_description=DESCRIBED), [
        *("TUMBLING", "3 partitions, 2 replicas", "primary key", "header origin"),
        *("MAP<STRING, ARRAY<DOUBLE>>", "Reads from it", "CSAS_X_1 (RUNNING): CREATE STREAM x", "CHILD"),
        *("numbers", "Consumer group group", "7"),
    ]),
    (e.SourceDescriptionList(statement_text="t", source_descriptions=(DESCRIBED,)), ["primary key"]),
    (e.QueryDescriptionEntity(statement_text="t", query_description=EXPLAINED), [
        *("Execution plan", "project", "Topology", "Sub-topology: 0", "it failed", "PROPERTY", "RUNNING"),
    ]),
    (e.QueryDescriptionList(statement_text="t", query_descriptions=(EXPLAINED,)), ["Execution plan"]),
    (e.FunctionNameList(statement_text="t", functions=(e.FunctionName("ABS", "SCALAR", "NUMBERS"),)), [
        *("ABS", "SCALAR", "NUMBERS"),
    ]),
    (e.FunctionDescription(
        statement_text="t", name="F", description="It counts", author="", version="", path="",
        functions=(FUNCTION,), type="AGGREGATE"), ["It counts", "F(x INT[]) → BIGINT", "x: a number"]),
    (e.PropertiesList(
        statement_text="t", properties=(e.PropertyInfo("p", "KSQL", "v", True, "SERVER"),),
        overwritten_properties=("p",), default_properties=()), ["p", "KSQL", "SERVER", "yes", "v"]),
    (e.CreateConnectorEntity(statement_text="t", info={"name": "C"}), ["Created connector C"]),
    (e.DropConnectorEntity(statement_text="t", connector_name="C"), ["Dropped connector C"]),
    (e.ConnectorList(
        statement_text="t", connectors=(e.SimpleConnectorInfo("C", "sink", "Class", "RUNNING (1/1)"),)),
        ["CONNECTOR", "C", "sink", "Class", "RUNNING (1/1)"]),
    (e.ConnectorPluginsList(
        statement_text="t", connectors_plugins=(e.ConnectorPluginInfo("Class", "sink"),)),
        ["CLASS", "Class", "sink"]),
    (e.ConnectorDescription(
        statement_text="t", connector_class="Class", sources=(DESCRIBED,), topics=("orders",),
        status={
            "name": "C", "type": "sink", "connector": {"state": "RUNNING", "worker_id": "w:1"},
            "tasks": [{"id": 0, "state": "FAILED", "worker_id": "w:1", "trace": "it broke"}],
        }), ["Class", "w:1", "FAILED", "it broke", "Streams and tables", "orders"]),
    (e.TypeList(statement_text="t", types={"T": e.SchemaInfo("STRUCT", FIELDS[:1])}), ["STRUCT<ID INTEGER>"]),
    (e.VariablesList(statement_text="t", variables=(e.VariableInfo("n", "1"),)), ["n", "1"]),
    (e.AssertTopicEntity(statement_text="t", topic_name="a", exists=True), ["Topic a exists."]),
    (e.AssertSchemaEntity(statement_text="t", subject="s", id=1, exists=False), [
        "Schema with subject s and id 1 does not exist.",
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("entity", "found"), ANSWERS, ids=lambda each: type(each).__name__)
def test_each_kind_of_answer_is_shown(
    entity: e.Entity, found: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    told = e.to_json(entity)
    print_entities(Printer(Output.table), [told])
    shown = capsys.readouterr().out
    assert '"@type"' not in shown
    assert [each for each in found if each not in shown] == []
    print_entities(Printer(Output.json), [told])
    assert json.loads(capsys.readouterr().out) == [told]


def test_every_kind_of_entity_was_shown() -> None:
    shown = {type(entity) for entity, _ in ANSWERS}
    kinds = {each for each in vars(e).values() if isinstance(each, type) and issubclass(each, e.Entity)}
    assert kinds - shown == {e.Entity}


def test_what_is_of_no_known_kind_is_shown_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    unknown: Mapping[str, Any] = {"@type": "news", "items": [], "warnings": [{"message": "old"}]}
    print_entities(Printer(Output.table), [unknown])
    shown = capsys.readouterr().out
    assert '"news"' in shown
    assert "WARNING: old" in shown


def test_a_command_that_failed_is_a_failure() -> None:
    assert failure_of({"commandStatus": {"status": "ERROR", "message": "no"}}) == "no"
    assert failure_of({"commandStatus": {"status": "SUCCESS", "message": "yes"}}) is None
    assert failure_of({"@type": "streams"}) is None


def test_types_are_written_as_sql_has_them() -> None:
    decimal = {"type": "DECIMAL", "parameters": {"precision": 4, "scale": 2}}
    assert type_of({"type": "ARRAY", "memberSchema": decimal}) == "ARRAY<DECIMAL(4, 2)>"


# Servers


@pytest.mark.parametrize("url", ["", "8088", "ftp://h", "http://"])
def test_what_is_no_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="expected http://HOST:PORT"):
        Rest(url)


def test_what_a_server_refuses_has_its_code(service: Service) -> None:
    rest = Rest(f"{service.url}/")
    assert rest.info()["version"] == "0.29.0"
    with pytest.raises(Refused, match="STREEM") as refused:
        rest.execute({"ksql": "CREATE STREEM x;"})
    assert refused.value.code == 40001
    with pytest.raises(Refused, match="404"):
        Rest(f"{service.url}/elsewhere").info()


@pytest.mark.parametrize("sent", ['[{"header": {}},\n', '[{"header": {}},\n{"row": {"col'])
def test_rows_that_break_off_are_told_from_rows_that_end(sent: str) -> None:
    """The server ends the response in the middle, as when it dies."""
    listening = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        connection, _ = listening.accept()
        connection.recv(65536)
        head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        connection.sendall(f"{head}{len(sent):x}\r\n{sent}\r\n".encode())
        connection.shutdown(socket.SHUT_WR)  # a close with an unread request would reset it
        while connection.recv(65536):
            pass
        connection.close()

    thread = threading.Thread(target=answer)
    thread.start()
    rest = Rest(f"http://127.0.0.1:{listening.getsockname()[1]}")
    with rest.rows({"ksql": "SELECT;"}) as rows:
        assert next(rows) == {"header": {}}
        with pytest.raises(Unreachable, match="before the end"):
            next(rows)
    thread.join()
    listening.close()


# Completion


def completed(service: Service, text: str) -> list[str]:
    session = Session(Rest(service.url), Printer(Output.table))
    completer = SqlCompleter(Names(session))
    event = CompleteEvent(completion_requested=True)
    return [each.text for each in completer.get_completions(Document(text), event)]


def test_what_may_follow_is_offered(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = service.made_stream()
    service.run(f"CREATE STREAM {name}_COPY AS SELECT * FROM {name};")
    assert completed(service, "sel") == ["select"]
    assert completed(service, "show topics; DESC") == ["DESCRIBE"]
    assert "HISTORY" in completed(service, "HI")
    assert completed(service, f"SELECT * FROM {name.lower()}") == [f"{name}_COPY"]
    assert completed(service, f"drop stream {name[:-1]}") == [name, f"{name}_COPY"]
    assert completed(service, "select arr") >= ["array"]
    assert "array_length" in completed(service, "select array_len")
    assert [each for each in completed(service, "TERMINATE ") if name in each]
    assert name in completed(service, "PRINT ")
    assert name in completed(service, f"PRINT '{name[:4]}")
    assert completed(service, "SET 'auto.off") == ["auto.offset.reset"]
    assert completed(service, "SET 'auto.offset.reset' = 'ear") == []
    assert completed(service, "SELECT 'auto.off") == []
    (tmp_path / "report.sql").touch()
    (tmp_path / "report.txt").touch()
    monkeypatch.chdir(tmp_path)
    assert completed(service, "RUN SCRIPT 'rep") == ["report.sql"]


def test_without_a_server_there_are_the_words_of_the_language() -> None:
    completer = SqlCompleter(Names(Session(Rest("http://127.0.0.1:1"), Printer(Output.table))))
    found = completer.get_completions(Document("SELECT x FR"), CompleteEvent())
    assert [each.text for each in found] == ["FROM"]
