"""The ACLs that docs/security.md says an application needs, as a test grants them: no more and no fewer."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from penstock.testing import Acl

PAGE: Final = Path(__file__).parents[1] / "docs" / "security.md"
KINDS: Final = {"Topic": "topic", "Group": "group", "TransactionalId": "transactional_id"}


def acls_of(application: str, user: str, **names: str) -> list[Acl]:
    """The ACLs of a row of the table; ``names`` stand for the words in capitals that it has in names."""
    return list(_acls(application, user, names))


def _acls(application: str, user: str, names: dict[str, str]) -> Iterator[Acl]:
    section = PAGE.read_text().partition("### What applications need\n")[2].partition("\n### ")[0]
    (needs,) = re.findall(rf"^\| {re.escape(application)} \| (.*) \|$", section, re.MULTILINE)
    for operations, kind, name in re.findall(r"([A-Z_]+(?:, [A-Z_]+)*) on (\w+)(?: `([^`]+)`)?", needs):
        words = [word.lower().replace("_", "-") for word in operations.split(", ")]
        if kind == "Cluster":
            yield Acl(user, words, cluster=True)  # type: ignore[arg-type]  # the table has Kafka's names
            continue
        name = re.sub("[A-Z]+", lambda word: names[word[0]], name)
        is_prefix = name.endswith("*")
        found = {KINDS[kind]: name.removesuffix("*") if is_prefix else name}
        yield Acl(user, words, prefixed=is_prefix, **found)  # type: ignore[arg-type]
