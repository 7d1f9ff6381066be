"""The site that `make docs` builds from the guides and from the docstrings of the public packages."""

from __future__ import annotations

import re
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from sphinx.ext.napoleon import Config, GoogleDocstring
from sphinx.pycode import ModuleAnalyzer

from penstock import errors
from penstock.protocol.software import VERSION

if TYPE_CHECKING:
    from sphinx.application import Sphinx

project = "Penstock"
copyright = "Penstock contributors"
version = release = VERSION

extensions = ["myst_parser", "sphinx.ext.autodoc"]
source_suffix = {".md": "markdown"}
myst_heading_anchors = 4  # links to headings, as GitHub makes them

default_role = "py:obj"  # a name in single backticks becomes a link if the site has the object
add_module_names = False
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_maximum_signature_line_length = 100

# The pages need no network: furo brings its scripts and styles, and uses the fonts of the machine.
html_theme = "furo"
html_title = f"Penstock {VERSION}"
html_copy_source = False

BUILT_IN: Final = "BaseException,Exception,OSError,ValueError,Protocol,Generic,list,tuple,object"
MEMBERS: Final = ["   :members:", "   :show-inheritance:", f"   :inherited-members: {BUILT_IN}"]
PARTS: Final[dict[str, tuple[str, list[str]]]] = {
    "autoclass": ("Classes", MEMBERS),
    "autofunction": ("Functions", []),
    "autodata": ("Values", ["   :no-value:"]),
    "autoexception": ("Exceptions", MEMBERS),
}
"""The parts of a package's page: directives that document names, their titles and options."""


def complete(app: Sphinx, page: str, source: list[str]) -> None:
    """Write the pages of packages, and adapt links to files outside of this folder.

    The map of the code has a page of its own in the site; README and SECURITY have none.
    """
    if page.startswith("api/"):
        source[0] = reference(page.removeprefix("api/"))
    source[0] = source[0].replace("(../../ARCHITECTURE.md", "(../architecture.md")
    source[0] = re.sub(r"\[([^]]+)\]\(\.\./(?:README|SECURITY)\.md[^)]*\)", r"\1", source[0])


def reference(package: str) -> str:
    """Write the page of a public package: its docstring, then those of all that it exports.

    Where several packages export an exception, it is on the page of the one that `penstock.errors` names.
    """
    module = import_module(package)
    names = getattr(module, "__all__", ())  # those of penstock.errors are on the pages of their packages
    exported = [name for name in names if errors.PACKAGES.get(name, package) == package]
    lines = [f"# {package}", "```{eval-rst}", f".. automodule:: {package}", "```"]
    for part, (title, options) in PARTS.items():
        names = [name for name in exported if part_of(getattr(module, name)) == part]
        if names:
            lines += [f"## {title}", "```{eval-rst}"]
            lines += [line for name in names for line in (f".. {part}:: {package}.{name}", *options, "")]
            lines += ["```"]
    return "\n".join(lines)


def part_of(found: object) -> str:
    """Name the directive for an exported object."""
    if isinstance(found, type):
        return "autoexception" if issubclass(found, BaseException) else "autoclass"
    return "autofunction" if callable(found) else "autodata"


def docstring(app: Sphinx, what: str, name: str, of: Any, options: object, lines: list[str]) -> None:
    """Translate a docstring from the forms that the code uses into reStructuredText."""
    if what == "data":
        # The docstring of a value is below its assignment, beside its class, and not in what exports it.
        written = ModuleAnalyzer.for_module(type(of).__module__).find_attr_docs()
        lines[:] = written.get(("", name.rpartition(".")[2]), lines)
    if lines and lines[0].startswith("Alias for field number"):
        lines.clear()  # Python's own words for a field of a NamedTuple
    lines[:] = with_code_blocks(lines)
    if what not in ("data", "attribute", "property"):  # there, napoleon takes words before a colon for a type
        lines[:] = GoogleDocstring(lines, Config(), app, what, name, of, options).lines()


def with_code_blocks(lines: list[str]) -> list[str]:
    """Mark examples, which are only indented, as code."""
    made: list[str] = []
    for line in lines:
        text = [found for found in made if found.strip()]
        begins = line.startswith("    ") and bool(text) and not made[-1].strip()
        if begins and not text[-1].startswith((" ", "- ")):
            made += ["::", ""]
        made.append(line)
    return made


def setup(app: Sphinx) -> None:
    """Connect the functions above."""
    app.connect("source-read", complete)
    app.connect("autodoc-process-docstring", docstring)
