"""`penstock schema`: manage the contents of a schema registry over HTTP."""

from __future__ import annotations

import difflib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from penstock.cli.connection import EXIT_REFUSED, EXIT_USAGE, JsonOutput, fail
from penstock.cli.output import console, print_json, print_table
from penstock.cli.registry_http import Registry
from penstock.cli.registry_option import DEFAULT_URL, Url

app = typer.Typer(name="schema", help="List, show, register, check and delete schemas.", no_args_is_help=True)

_PAGE: Final = 500
_TYPES: Final = {".avsc": "AVRO", ".json": "JSON", ".proto": "PROTOBUF"}

Subject = Annotated[str, typer.Argument(metavar="SUBJECT", help="A subject, such as orders-value.")]
File = Annotated[Path, typer.Argument(metavar="FILE", help="The schema: .avsc, .json or .proto; - is stdin.")]
Type = Annotated[
    str | None,
    typer.Option(
        "--type", metavar="TYPE", help="The type: AVRO, JSON or PROTOBUF. Default: by the file's extension."
    ),
]
References = Annotated[
    list[str] | None,
    typer.Option(
        "--reference", metavar="NAME=SUBJECT:VERSION", help="A schema that this one refers to; repeatable."
    ),
]
Normalize = Annotated[
    bool, typer.Option("--normalize", help="Normalize the schema before comparing and storing it.")
]


@app.command("list")
def list_schemas(
    prefix: Annotated[
        str, typer.Option("--prefix", metavar="TEXT", help="Only list subjects that begin with this.")
    ] = "",
    versions: Annotated[
        bool, typer.Option("--versions", help="List all versions, not only the latest.")
    ] = False,
    deleted: Annotated[bool, typer.Option("--deleted", help="Include soft-deleted versions.")] = False,
    url: Url = DEFAULT_URL,
    json_output: JsonOutput = False,
) -> None:
    """List subjects with their latest version."""
    registry = Registry(url)
    found: list[dict[str, Any]] = []
    while True:
        page = registry.get(
            "schemas",
            subjectPrefix=prefix or ":*:",
            latestOnly=not versions,
            deleted=deleted,
            offset=len(found) or None,
            limit=_PAGE,
        )
        found += page
        if len(page) < _PAGE:
            break
    if json_output:
        print_json(found)
        return
    rows = [(s["subject"], s["version"], s["id"], s.get("schemaType", "AVRO")) for s in found]
    print_table(["SUBJECT", "VERSION", "ID", "TYPE"], rows)


@app.command()
def show(
    subject: Annotated[str | None, typer.Argument(metavar="[SUBJECT]")] = None,
    version: Annotated[
        str, typer.Option("--version", metavar="N", help="The version: a number, or latest.")
    ] = "latest",
    schema_id: Annotated[
        int | None,
        typer.Option("--id", metavar="N", help="Show the schema with this id instead of a subject."),
    ] = None,
    deleted: Annotated[bool, typer.Option("--deleted", help="Also find a soft-deleted version.")] = False,
    url: Url = DEFAULT_URL,
    json_output: JsonOutput = False,
) -> None:
    """Print a schema."""
    if (subject is None) == (schema_id is None):
        fail("give a SUBJECT or --id N", EXIT_USAGE)
    registry = Registry(url)
    if schema_id is not None:
        found = {"id": schema_id, **registry.get("schemas", "ids", str(schema_id))}
    else:
        found = registry.get("subjects", subject or "", "versions", version, deleted=deleted)
    if json_output:
        print_json(found)
    else:
        sys.stdout.write(_readable(found["schema"]) + "\n")


@app.command()
def register(
    subject: Subject,
    file: File,
    type: Type = None,
    reference: References = None,
    normalize: Normalize = False,
    url: Url = DEFAULT_URL,
    json_output: JsonOutput = False,
) -> None:
    """Register a schema under a subject; a schema that exists already keeps its id."""
    body = _body(file, type, reference)
    registry = Registry(url)
    found = registry.post("subjects", subject, "versions", body=body, normalize=normalize)
    known = registry.post("subjects", subject, body=body, normalize=normalize)
    if json_output:
        print_json({"subject": subject, "version": known["version"], "id": found["id"]})
    else:
        _say(f"{subject} version {known['version']} has id {found['id']}")


@app.command()
def check(
    subject: Subject,
    file: File,
    type: Type = None,
    reference: References = None,
    version: Annotated[
        str | None,
        typer.Option(
            "--version",
            metavar="N",
            help="Only check against this version. Default: the versions that registering checks.",
        ),
    ] = None,
    normalize: Normalize = False,
    url: Url = DEFAULT_URL,
    json_output: JsonOutput = False,
) -> None:
    """Check whether a schema may follow those of its subject; exit code 1 if it may not."""
    path = ["compatibility", "subjects", subject, "versions", *([version] if version else [])]
    body = _body(file, type, reference)
    found = Registry(url).post(*path, body=body, verbose=True, normalize=normalize)
    is_compatible = bool(found["is_compatible"])
    if json_output:
        print_json(found)
    else:
        _say(f"{file} {'is' if is_compatible else 'is not'} compatible with {subject}")
        for message in found.get("messages", []):
            _say(f"  {message}")
    if not is_compatible:
        raise typer.Exit(EXIT_REFUSED)


@app.command()
def diff(
    subject: Subject,
    old: Annotated[
        str | None,
        typer.Argument(
            metavar="[OLD]",
            help="The old version. Default: the one before the latest, or the latest if NEW is a file.",
        ),
    ] = None,
    new: Annotated[
        str, typer.Argument(metavar="[NEW]", help="The new version, or a file. Default: latest.")
    ] = "latest",
    url: Url = DEFAULT_URL,
    json_output: JsonOutput = False,
) -> None:
    """Show the differences between two versions, or between a version and a file."""
    registry = Registry(url)
    if old is None:
        versions = registry.get("subjects", subject, "versions")
        is_file = Path(new).is_file()
        if len(versions) < 2 and not is_file:
            fail(f"{subject} has one version, expected two to compare", EXIT_USAGE)
        old = str(versions[-1] if is_file else versions[-2])
    before, after = _side(registry, subject, old), _side(registry, subject, new)
    lines = list(
        difflib.unified_diff(
            before.splitlines(), after.splitlines(), f"{subject} {old}", f"{subject} {new}", lineterm=""
        )
    )
    if json_output:
        print_json({"subject": subject, "old": old, "new": new, "diff": lines})
        return
    for line in lines:
        style = "green" if line.startswith("+") else "red" if line.startswith("-") else None
        _say(line, style)


@app.command()
def delete(
    subject: Subject,
    version: Annotated[
        str | None,
        typer.Option("--version", metavar="N", help="Only delete this version: a number, or latest."),
    ] = None,
    permanent: Annotated[
        bool,
        typer.Option(
            "--permanent", help="Delete permanently; as in Confluent's registry, only after a soft deletion."
        ),
    ] = False,
    url: Url = DEFAULT_URL,
    json_output: JsonOutput = False,
) -> None:
    """Delete a subject or a version: softly, so that its ids still resolve, or permanently."""
    registry = Registry(url)
    if version is None:
        found = registry.delete("subjects", subject, permanent=permanent)
    else:
        found = [registry.delete("subjects", subject, "versions", version, permanent=permanent)]
    if json_output:
        print_json({"subject": subject, "versions": found, "permanent": permanent})
    else:
        _say(f"deleted {subject} {', '.join(map(str, found))}")


def _say(line: str, style: str | None = None) -> None:
    """Print a line unchanged and unwrapped: names and schemas may contain brackets, and be long."""
    console().print(line, style=style, markup=False, soft_wrap=True)


def _body(file: Path, type: str | None, references: Sequence[str] | None) -> dict[str, Any]:
    """The body of a request about a file's schema."""
    kind = (type or _TYPES.get(file.suffix, "")).upper()
    if kind not in _TYPES.values():
        known = ", ".join(_TYPES.values())
        what = f"--type {type}" if type else f"{file}: its ending does not determine the type"
        fail(f"{what}; expected --type with one of {known}", EXIT_USAGE)
    body: dict[str, Any] = {"schemaType": kind, "schema": _text(file)}
    if references:
        body["references"] = [_reference(each) for each in references]
    return body


def _reference(text: str) -> dict[str, Any]:
    name, _, rest = text.partition("=")
    subject, _, version = rest.rpartition(":")
    if not name or not subject or not version.removeprefix("-").isdigit():
        fail(f"--reference {text}: expected NAME=SUBJECT:VERSION", EXIT_USAGE)
    return {"name": name, "subject": subject, "version": int(version)}


def _text(file: Path) -> str:
    if str(file) == "-":
        return sys.stdin.read()
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        fail(f"cannot read {file}: {getattr(error, 'strerror', None) or error}", EXIT_USAGE)


def _side(registry: Registry, subject: str, side: str) -> str:
    if side != "latest" and not side.isdigit():
        return _readable(_text(Path(side)))
    return _readable(registry.get("subjects", subject, "versions", side)["schema"])


def _readable(text: str) -> str:
    """JSON with indentation; Protobuf unchanged."""
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except ValueError:
        return text.rstrip()
