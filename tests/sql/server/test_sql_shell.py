"""The shell as a process: scripts, their failures, and a user at a terminal."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest
from shell_terminal import Terminal, command, environment, run_shell
from sql_service import Service, unique

from waiting import wait_until

EARLIEST = ("--set", "auto.offset.reset=earliest")


def queries(service: Service) -> list[str]:
    [found] = service.run("SHOW QUERIES;")
    return [each["queryString"] for each in found["queries"]]


def test_statements_of_the_command_line_are_carried_out_in_turn(service: Service, tmp_path: Path) -> None:
    name = service.made_stream(rows=2)
    done = run_shell(
        service.url, tmp_path, *EARLIEST, "-e", f"DESCRIBE {name};", "-e", f"SELECT * FROM {name};"
    )
    assert done.exit_code == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["ID", "INTEGER", "key"] in lines
    assert ["ID", "NAME"] in lines
    assert lines[-2:] == [["0", "n0"], ["1", "n1"]]


def test_a_query_with_a_limit_ends(service: Service, tmp_path: Path) -> None:
    name = service.made_stream(rows=3)
    select = f"SELECT name FROM {name} EMIT CHANGES LIMIT 2"
    done = run_shell(service.url, tmp_path, *EARLIEST, "-e", select)
    assert done.exit_code == 0, done.stderr
    assert [line.strip() for line in done.stdout.splitlines()[2:]] == ["n0", "n1"]
    assert "Limit Reached" in done.stderr


def test_json_is_what_the_server_says(service: Service, tmp_path: Path) -> None:
    name = service.made_stream(rows=1)
    described = run_shell(service.url, tmp_path, "-o", "json", "-e", f"DESCRIBE {name};")
    [entity] = json.loads(described.stdout)
    assert entity["sourceDescription"]["name"] == name
    selected = run_shell(service.url, tmp_path, "-o", "json", "-e", f"SELECT * FROM {name};")
    header, row = map(json.loads, selected.stdout.splitlines())
    assert header["header"]["schema"] == "`ID` INTEGER KEY, `NAME` STRING"
    assert row == {"row": {"columns": [0, "n0"]}}


@pytest.mark.parametrize(
    ("text", "place", "found"),
    [
        ("SHOW TOPICS;\n\nSELECT *\n  FROM nothing_there;\n", "4:8", "NOTHING_THERE"),
        ("SHOW TOPICS;\n  CREATE STREEM x;\n", "2:10", "STREEM"),
        ("-- a comment; of one line\nDESCRIBE nothing_there;", "2:10", "NOTHING_THERE"),
        ("DEFINE x 'y';", "1:10", "expected"),
        ("SHOW TOPICS; SET 'no.such'='x';", "1:14", "no.such"),
        ("UNDEFINE nothing;", "1:1", "nothing"),
        ("UNSET 'auto.offset.reset';", "1:1", "auto.offset.reset"),
        ("SELECT 'open FROM x;", "1:8", "string"),
        ("RUN SCRIPT 'not there.sql';", "", "not there.sql"),
    ],
)
def test_what_fails_in_a_file_is_told_with_its_place(
    service: Service, tmp_path: Path, text: str, place: str, found: str
) -> None:
    (tmp_path / "x.sql").write_text(f"{text}\nSHOW STREAMS;")
    done = run_shell(service.url, tmp_path, "-f", "x.sql")
    assert done.exit_code == 1
    if place:
        assert f"error: x.sql:{place}: " in done.stderr
    assert found in done.stderr
    assert "KEY FORMAT" not in done.stdout  # nothing after the failed statement is executed


def test_a_failure_of_the_command_line_names_its_place(service: Service, tmp_path: Path) -> None:
    done = run_shell(service.url, tmp_path, "-e", "SHOW TOPICS;", "-e", "SHOW TOPICS; SHOW NOTHING;")
    assert done.exit_code == 1
    assert "error: -e 2:1:19: " in done.stderr


def test_statements_come_from_standard_input(service: Service, tmp_path: Path) -> None:
    name = service.made_stream(rows=1)
    done = run_shell(service.url, tmp_path, text=f"OUTPUT json\nSELECT name\nFROM {name};\nVERSION")
    assert done.exit_code == 0, done.stderr
    assert '{"row": {"columns": ["n0"]}}' in done.stdout
    assert "Server: 0.29.0" in done.stdout
    wrong = run_shell(service.url, tmp_path, text="\nSHOW NOTHING;")
    assert (wrong.exit_code, "standard input:2:6: " in wrong.stderr) == (1, True)


def test_variables_and_properties_go_along(service: Service, tmp_path: Path) -> None:
    name = service.made_stream(rows=2)
    script = (
        "SET 'auto.offset.reset'='earliest'; DEFINE least = '1';"
        "SELECT name FROM ${source} WHERE id >= ${least} EMIT CHANGES LIMIT 1; SHOW VARIABLES;"
    )
    done = run_shell(service.url, tmp_path, "-d", f"source={name}", "-e", script)
    assert done.exit_code == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["n1"] in lines
    assert ["source", name] in lines
    assert ["least", "1"] in lines


def test_scripts_run_scripts_beside_them(service: Service, tmp_path: Path) -> None:
    name = service.made_stream()
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "inner.sql").write_text(f"SHOW TYPES;\nDESCRIBE {name};")
    (tmp_path / "folder" / "outer.sql").write_text("RUN SCRIPT 'inner.sql';")
    done = run_shell(service.url, tmp_path, "-e", "RUN SCRIPT 'folder/outer.sql';")
    assert done.exit_code == 0, done.stderr
    assert name in done.stdout
    (tmp_path / "folder" / "inner.sql").write_text("\nSHOW NOTHING;")
    done = run_shell(service.url, tmp_path, "-f", "folder/outer.sql")
    assert (done.exit_code, "folder/inner.sql:2:6: " in done.stderr) == (1, True)
    (tmp_path / "folder" / "inner.sql").write_text("RUN SCRIPT 'outer.sql';")
    assert "scripts that run scripts" in run_shell(service.url, tmp_path, "-f", "folder/outer.sql").stderr


def test_commands_of_the_shell_may_stand_in_files(service: Service, tmp_path: Path) -> None:
    name = service.made_stream(rows=1)
    text = f"OUTPUT json\nSPOOL out.txt;\nSELECT name FROM {name};\nEXIT\nSHOW NOTHING;"
    (tmp_path / "x.sql").write_text(text)
    done = run_shell(service.url, tmp_path, "-f", "x.sql", "-e", "VERSION")
    assert done.exit_code == 0, done.stderr
    assert '{"row": {"columns": ["n0"]}}' in (tmp_path / "out.txt").read_text()


def test_where_no_server_answers(tmp_path: Path) -> None:
    done = run_shell("http://127.0.0.1:1", tmp_path, "-e", "SHOW TOPICS;")
    assert done.exit_code == 3
    assert "no SQL server answers at http://127.0.0.1:1 (Connection refused)" in done.stderr
    assert run_shell("nothing", tmp_path, "-e", "SHOW TOPICS;").exit_code == 2


def test_ctrl_c_ends_a_query_of_a_script(service: Service, tmp_path: Path) -> None:
    name = service.made_stream(rows=1)
    text = f"SELECT name FROM {name} EMIT CHANGES;"
    process = subprocess.Popen(
        command(service.url, *EARLIEST, "-e", text),
        env=environment(tmp_path),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert [process.stdout.readline().strip() for _ in range(3)][-1] == "n0"
    assert any(name in each for each in queries(service))
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    process.stdout.close()
    wait_until(lambda: not any(name in each for each in queries(service)))


# A user at a terminal


def test_a_query_is_followed_and_ended(service: Service, tmp_path: Path) -> None:
    name = service.made_stream(rows=1)
    with Terminal(service.url, tmp_path) as shell:
        shell.read_until("sql>")
        shell.enter("SET 'auto.offset.reset'='earliest';")
        shell.read_until("is now set to 'earliest'")
        shell.read_until("sql>")
        shell.enter(f"SELECT name FROM {name} EMIT CHANGES;")
        shell.read_until("n0\n")
        service.run(f"INSERT INTO {name} VALUES (1, 'later');")
        shell.read_until("later\n")
        shell.type("\x03")
        shell.read_until("the query has ended")
        shell.read_until("sql>")
        wait_until(lambda: not any(name in each for each in queries(service)))
        shell.enter("EXIT")
        assert shell.wait() == 0


def test_a_statement_may_have_several_lines(service: Service, tmp_path: Path) -> None:
    name = service.made_stream(rows=1)
    with Terminal(service.url, tmp_path) as shell:
        shell.read_until("sql>")
        shell.enter("SELECT name")
        shell.read_until("...>")
        shell.enter(f"FROM {name} -- not the end;")
        shell.read_until("...>")
        shell.enter(";")
        shell.read_until("n0\n")
        shell.read_until("sql>")
        shell.type("\x04")
        assert shell.wait() == 0


def test_what_fails_is_told_and_the_shell_goes_on(service: Service, tmp_path: Path) -> None:
    with Terminal(service.url, tmp_path) as shell:
        shell.read_until("sql>")
        shell.enter("SHOW NOTHING;")
        shell.read_until("error: line 1, column 6: found NOTHING")
        shell.read_until("sql>")
        shell.enter("SERVER http://127.0.0.1:1")
        shell.read_until("no SQL server answers")
        shell.read_until("sql>")
        shell.type("half a stat\x03")
        shell.read_until("sql>")
        shell.enter("SERVER")
        shell.read_until(service.url)
        shell.read_until("sql>")
        shell.enter("QUIT;")
        assert shell.wait() == 0


def test_names_are_completed(service: Service, tmp_path: Path) -> None:
    name = service.made_stream(rows=1)
    with Terminal(service.url, tmp_path) as shell:
        shell.read_until("sql>")
        shell.type(f"SELECT name FROM {name[:-2].lower()}")
        shell.read_until(name)
        shell.enter("\t;")
        shell.read_until("n0\n")
        shell.read_until("sql>")
        shell.type("SET 'auto.off")
        shell.read_until("auto.offset.reset")
        shell.enter("\t'='earliest';")
        shell.read_until("is now set to")


def test_what_was_typed_is_kept_for_the_next_time(service: Service, tmp_path: Path) -> None:
    with Terminal(service.url, tmp_path) as shell:
        shell.read_until("sql>")
        shell.enter("SHOW TYPES;")
        shell.read_until("SCHEMA")
        shell.read_until("sql>")
        shell.enter("EXIT")
        assert shell.wait() == 0
    with Terminal(service.url, tmp_path) as shell:
        shell.read_until("sql>")
        shell.enter("HISTORY")
        shell.read_until("1  SHOW TYPES;")
        shell.read_until("sql>")
        shell.type("\x1b[A\x1b[A\x1b[A")
        shell.read_until("SHOW TYPES;")


def test_what_is_shown_is_spooled(service: Service, tmp_path: Path) -> None:
    name = service.made_stream(rows=1)
    with Terminal(service.url, tmp_path) as shell:
        shell.read_until("sql>")
        shell.enter("SPOOL out.txt")
        shell.read_until("output is written to out.txt")
        shell.read_until("sql>")
        shell.enter(f"SELECT name FROM {name};")
        shell.read_until("n0\n")
        shell.read_until("sql>")
        shell.enter("SHOW NOTHING;")
        shell.read_until("sql>")
        shell.enter("SPOOL OFF")
        shell.read_until("output is no longer written to out.txt")
        shell.read_until("sql>")
        shell.enter("SHOW TYPES;")
        shell.read_until("SCHEMA")
    spooled = (tmp_path / "out.txt").read_text()
    assert f"SELECT name FROM {name};\n" in spooled
    assert "\nn0\n" in spooled
    assert "error: line 1" in spooled
    assert "\x1b" not in spooled
    assert "SCHEMA" not in spooled


def test_answers_change_their_form(service: Service, tmp_path: Path) -> None:
    name = unique("T")
    with Terminal(service.url, tmp_path, "--output", "json") as shell:
        shell.read_until("sql>")
        shell.enter(f"CREATE TYPE {name} AS ARRAY<STRUCT<a INT, b DECIMAL(4, 2)>>;")
        shell.read_until('"@type": "currentStatus"')
        shell.read_until("sql>")
        shell.enter("OUTPUT TABULAR")
        shell.read_until("answers are shown as table")
        shell.read_until("sql>")
        shell.enter("SHOW TYPES;")
        shell.read_until(f"{name}  ARRAY<STRUCT<A INTEGER, B DECIMAL(4, 2)>>")
        shell.read_until("sql>")
        shell.enter("OUTPUT xml")
        shell.read_until("expected TABLE or JSON")
        shell.read_until("sql>")
        shell.enter("help")
        shell.read_until("EXIT, QUIT, Ctrl-D")


def test_rows_are_shown_as_the_terminal_is_told(service: Service, tmp_path: Path) -> None:
    name = service.made_stream()
    service.run(f"INSERT INTO {name} VALUES (1, 'a long value');")
    with Terminal(service.url, tmp_path) as shell:
        shell.read_until("sql>")
        shell.enter("SET CLI COLUMN-WIDTH 6")
        shell.read_until("columns are 6 wide")
        shell.read_until("sql>")
        shell.enter(f"SELECT * FROM {name};")
        shell.read_until("1       a long\n         value\n")
        shell.read_until("sql>")
        shell.enter("set cli wrap off;")
        shell.read_until("long values are cut")
        shell.read_until("sql>")
        shell.enter(f"SELECT * FROM {name};")
        shell.read_until("1       a lon…\n")
        shell.read_until("sql>")
        shell.enter("SET CLI COLOUR ON")
        shell.read_until("expected SET CLI WRAP ON")
        shell.read_until("sql>")
        shell.enter("SPOOL OFF")
        shell.read_until("nothing is spooled")
        shell.read_until("sql>")
        shell.enter("HISTORY")
        shell.read_until("1  SET CLI COLUMN-WIDTH 6\n")
        shell.read_until("sql>")  # Ctrl-D typed before the prompt goes to the terminal itself, and is lost
        shell.type("\x04")
        assert shell.wait() == 0
