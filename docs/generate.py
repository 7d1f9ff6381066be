"""Writes the generated parts of the docs from the code: `make docs`. A test checks that they are current.

A generated part stands between `<!-- NAME: generated -->` and `<!-- NAME: end -->`.
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from penstock.broker import dispatch
from penstock.metadata.configs.definition import ConfigKey, UpdateMode
from penstock.metadata.configs.reference import BROKER_KEYS, GROUP_KEYS, TOPIC_KEYS
from penstock.protocol import api_keys
from penstock.protocol.api_keys import ApiKey

DOCS = Path(__file__).parent


def main() -> int:
    """Rewrite what is out of date; the exit code says whether anything was."""
    changed = False
    for path, text in generated_documents():
        if path.read_text() != text:
            path.write_text(text)
            print(f"rewritten: {path.name}")
            changed = True
    return int(changed)


def generated_documents() -> Iterator[tuple[Path, str]]:
    """Each document with generated parts, as it should be."""
    parts: Mapping[str, Mapping[str, Callable[[], str]]] = {
        "compatibility.md": {"release": release, "apis": apis},
        "configuration.md": {
            "broker configs": lambda: configs(BROKER_KEYS),
            "topic configs": lambda: configs(TOPIC_KEYS),
            "group configs": lambda: configs(GROUP_KEYS),
        },
    }
    for name, sections in parts.items():
        text = (DOCS / name).read_text()
        for section, render in sections.items():
            text = replaced(text, section, render())
        yield DOCS / name, text


def replaced(text: str, section: str, content: str) -> str:
    """*text* with the content of one generated part exchanged."""
    begin, end = f"<!-- {section}: generated -->", f"<!-- {section}: end -->"
    head, found_begin, rest = text.partition(begin)
    _, found_end, tail = rest.partition(end)
    if not (found_begin and found_end):
        raise ValueError(f"no part {section!r}: expected {begin} … {end}")
    return f"{head}{begin}\n{content}\n{end}{tail}"


def release() -> str:
    """The release whose formats and behaviour Penstock follows."""
    return (
        f"The target release is **Apache Kafka {api_keys.TARGET_RELEASE}**, "
        f"metadata.version {api_keys.TARGET_METADATA_VERSION} (level {api_keys.TARGET_METADATA_LEVEL})."
    )


def apis() -> str:
    """Every API of the target release, with the versions served here and there."""
    modules = dispatch.gather_modules()
    lines = ["| key | API | served | target release |", "| ---: | --- | --- | --- |"]
    for key in ApiKey:
        module = modules.get(key)
        served = "-" if module is None else shown_range(dispatch.versions(module))
        lines.append(f"| {key.value} | {key.name} | {served} | {shown_range(api_keys.api_range(key))} |")
    return "\n".join(lines)


def shown_range(versions: tuple[int, int]) -> str:
    """`3 to 13`, or one number."""
    lowest, highest = versions
    return str(lowest) if lowest == highest else f"{lowest} to {highest}"


def configs(keys: Mapping[str, ConfigKey]) -> str:
    """One table of configurations."""
    lines = ["| name | type | default | change while running | |", "| --- | --- | --- | --- | --- |"]
    for key in sorted(keys.values(), key=lambda key: key.name):
        if key.internal:
            continue
        default = (
            "required" if key.required else "null" if key.default is None else f"`{key.default or '(empty)'}`"
        )
        kind = key.type.name.lower() + (f" {key.expected}" if key.expected else "")
        dynamic = "-" if key.update_mode is UpdateMode.READ_ONLY else key.update_mode.value
        lines.append(f"| `{key.name}` | {kind} | {default} | {dynamic} | {key.doc} |".replace("||", "\\|"))
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
