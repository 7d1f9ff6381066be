"""Prove that a change touches nothing but text: ``python tests/text_only.py REVISION [--strings]``.

Every Python file that differs between the revision and the working tree is parsed in both versions. The
syntax trees must be equal once docstrings are removed, those below assignments included; comments are no part
of a tree. Comments that tools read (``# type: ignore``, ``# noqa``) must be the same. With ``--strings``
the words of strings may differ too, as in error messages, but not the placeholders of their fields.
"""

import argparse
import ast
import io
import re
import subprocess
import sys
import tokenize
from typing import Final

READ_BY_TOOLS: Final = re.compile(r"type: ignore\S*|noqa\S*|fmt: \w+|pragma: .*")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("revision", help="the revision before the change")
    parser.add_argument("--strings", action="store_true", help="let the words of strings differ")
    parser.add_argument("paths", nargs="*", default=["."], help="limit the comparison to these paths")
    chosen = parser.parse_intermixed_args(arguments)
    touched = [
        line.split("\t")
        for line in _git(
            "diff", "--no-renames", "--name-status", chosen.revision, "--", *chosen.paths
        ).splitlines()
    ]
    altered = [f"{path}: added or removed" for status, path in touched if status != "M"]
    compared = 0
    for status, path in touched:
        if status == "M" and path.endswith(".py"):
            compared += 1
            with open(path, encoding="utf-8") as file:
                after = file.read()
            if skeleton(_git("show", f"{chosen.revision}:./{path}"), chosen.strings) != skeleton(
                after, chosen.strings
            ):
                altered.append(f"{path}: more than text differs")
        elif status == "M" and not path.endswith((".md", ".txt")):
            altered.append(f"{path}: not Python, so compare it by eye")
    print("\n".join([*altered, f"{compared} Python files compared, {len(altered)} altered"]))
    return 1 if altered else 0


def skeleton(source: str, without_strings: bool = False) -> tuple[str, list[str]]:
    """The syntax tree without docstrings as text, and the comments that tools read.

    Without strings, the words of every string are left out as well; the fields of f-strings stay.
    """
    tree = _WithoutText(without_strings).visit(ast.parse(source))
    comments = [
        token.string
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT
    ]
    return ast.dump(tree), [found for comment in comments for found in READ_BY_TOOLS.findall(comment)]


class _WithoutText(ast.NodeTransformer):
    def __init__(self, without_strings: bool) -> None:
        self._without_strings = without_strings

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        """Remove a docstring, and also one that documents the attribute assigned before it."""
        if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            return None
        return self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        if self._without_strings:  # the fields stay, with what they say inside
            node.values = [value for value in node.values if isinstance(value, ast.FormattedValue)]
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if self._without_strings and isinstance(node.value, str):
            node.value = ""
        return node


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    sys.exit(main())
