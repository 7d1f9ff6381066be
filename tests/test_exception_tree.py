"""The tree of exceptions in the docstring of `penstock.errors` is that of the classes."""

from collections.abc import Iterator
from importlib import import_module

import pytest

from penstock import errors
from penstock.errors import PenstockError

PACKAGES = (
    "penstock",
    "penstock.client",
    "penstock.connect",
    "penstock.protocol.errors",
    "penstock.registry.client",
    "penstock.spark",
    "penstock.spark.observing",
    "penstock.sql",
    "penstock.streams",
    "penstock.testing",
    "penstock.views",
)


def exported() -> Iterator[tuple[str, type[BaseException]]]:
    """Each exception that a public package exports, with the package."""
    for package in PACKAGES:
        module = import_module(package)
        for name in getattr(module, "__all__", errors.PACKAGES.keys() & vars(module).keys()):
            found = getattr(module, name)
            if isinstance(found, type) and issubclass(found, BaseException):
                yield package, found


def tree(of: type[PenstockError], depth: int, public: set[type[BaseException]]) -> Iterator[str]:
    """The lines of a class and of all below it; classes that no package exports are left out."""
    if of in public:
        builtin = [base.__name__ for base in of.__bases__ if not issubclass(base, PenstockError)]
        shown = f" ({', '.join(builtin)})" if builtin and depth else ""
        yield f"{'  ' * depth + of.__name__ + shown:<40}{errors.PACKAGES[of.__name__]}"
        depth += 1
    for below in sorted(of.__subclasses__(), key=lambda each: each.__name__):
        yield from tree(below, depth, public)


def test_the_docstring_shows_the_tree() -> None:
    lines = "\n".join(f"    {line}" for line in tree(PenstockError, 0, {found for _, found in exported()}))
    assert errors.__doc__ is not None
    assert lines in errors.__doc__, f"the tree is\n{lines}"


def test_what_public_packages_export_has_the_root() -> None:
    assert not [found for _, found in exported() if not issubclass(found, PenstockError)]


def test_names_are_distinct() -> None:
    classes = {found for _, found in exported()}
    assert len({found.__name__ for found in classes}) == len(classes)


@pytest.mark.parametrize("name", errors.PACKAGES)
def test_every_exception_is_here_and_in_its_package(name: str) -> None:
    assert getattr(errors, name) is getattr(import_module(errors.PACKAGES[name]), name)


def test_other_names_are_missing() -> None:
    with pytest.raises(AttributeError, match=r"'penstock\.errors' has no attribute 'Unknown'"):
        errors.Unknown  # noqa: B018
