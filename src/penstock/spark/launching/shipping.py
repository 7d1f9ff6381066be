"""Penstock for executors that don't have it: an archive that Spark unpacks for each of them.

    library = make_library()
    conf = {"spark.archives": f"{library.archive}#{DIRECTORY}", "spark.executorEnv.PYTHONPATH": DIRECTORY}

`penstock.spark.launching.session.build_session` does that for every master but a local one. The archive has
this package with its compiled kernels, which a zip on the path (``--py-files``) could not hold, and the small
packages that it needs in an executor. Packages that Spark itself needs for Arrow (pyarrow, pandas, numpy,
protobuf) must be installed: they are large, and every PySpark installation that runs Python has them.
Executors must have the driver's Python release and platform, as Spark demands anyway.
"""

from __future__ import annotations

import gzip
import hashlib
import importlib.metadata
import importlib.util
import io
import os
import re
import tarfile
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from types import ModuleType
from typing import Final, NamedTuple

import penstock
from penstock.errors import PenstockError
from penstock.spark.launching.java import cache_directory

DIRECTORY: Final = "penstock-library"
"""The directory into which Spark unpacks the archive, below the working directory of each executor."""

EXECUTOR_NEEDS: Final = ("cramjam", "crc32c", "lz4", "msgspec", "zstandard")
"""The distributions that source, sink and streams applications import in an executor."""
DRIVER_NEEDS: Final = (
    *EXECUTOR_NEEDS,
    "confluent-kafka",
    "cryptography",
    "google-re2",
    "javaproperties",
    "joserfc",
    "prometheus-client",
    "rich",
    "typer",
)
"""The distributions for a driver on the cluster: those of executors, and those of the command line."""

_LEFT_OUT: Final = {".c", ".pyx", ".pxd", ".h", ".pyc"}
_REQUIREMENT: Final = re.compile(r"[A-Za-z0-9._-]+")


class CannotShip(PenstockError, RuntimeError):
    """Something that executors need is not installed here; the message names it."""


class Library(NamedTuple):
    """One library in two forms: an archive for executors, and a directory for this machine's own workers."""

    archive: Path
    directory: Path


def make_library(
    modules: Iterable[ModuleType] = (), *, needs: Iterable[str] = EXECUTOR_NEEDS, cache: Path | None = None
) -> Library:
    """Write the archive and the directory, or reuse those already written for the same content.

    The library includes ``modules`` with their packages, and the distributions in ``needs`` with those that
    they require in turn. It is written to ``cache``, by default the user's cache directory. Raises CannotShip
    and OSError.
    """
    files = dict(_own_files())
    for name in sorted(_closure(needs)):
        files |= _distribution_files(name)
    for module in modules:
        files |= _module_files(module)
    contents = {name: path.read_bytes() for name, path in sorted(files.items())}
    digest = hashlib.sha256()
    for name, data in contents.items():
        digest.update(f"{name}\0{len(data)}\0".encode() + data)
    parent = cache if cache is not None else cache_directory()
    parent.mkdir(parents=True, exist_ok=True)
    directory = parent / f"library-{digest.hexdigest()[:12]}"
    archive = parent / f"{directory.name}.tar.gz"
    if not directory.exists():
        _write_directory(directory, contents)
    if not archive.exists():
        _write_archive(archive, contents)
    return Library(archive, directory)


def _own_files() -> Iterator[tuple[str, Path]]:
    for name in ("penstock", "pyspark_penstock"):
        spec = importlib.util.find_spec(name)
        if spec is None or not spec.submodule_search_locations:
            raise CannotShip(
                f"the package {name}, which executors need, is not installed beside {penstock.__file__}"
            )
        yield from _package_files(name, Path(spec.submodule_search_locations[0]))


def _package_files(name: str, directory: Path) -> Iterator[tuple[str, Path]]:
    for path in directory.rglob("*"):
        if path.is_file() and path.suffix not in _LEFT_OUT and "__pycache__" not in path.parts:
            yield f"{name}/{path.relative_to(directory).as_posix()}", path


def _module_files(module: ModuleType) -> dict[str, Path]:
    """Return the files of the module's top-level package, or its single file, by their import paths."""
    name = module.__name__.partition(".")[0]
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.submodule_search_locations:
        return dict(_package_files(name, Path(next(iter(spec.submodule_search_locations)))))
    if module.__file__ is None:
        raise CannotShip(f"the module {module.__name__} has no file that could be sent to executors")
    return {Path(module.__file__).name: Path(module.__file__)}


def _closure(names: Iterable[str]) -> set[str]:
    found: set[str] = set()
    left = list(names)
    while left:
        name = left.pop()
        if name in found:
            continue
        found.add(name)
        for requirement in _distribution(name).requires or ():
            required = _REQUIREMENT.match(requirement)
            if required and ";" not in requirement:  # skips extras, and other platforms and releases
                left.append(required[0])
    return found


def _distribution(name: str) -> importlib.metadata.Distribution:
    try:
        return importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        raise CannotShip(
            f"the package {name}, which executors need, is not installed here: pip install {name}"
        ) from None


def _distribution_files(name: str) -> Mapping[str, Path]:
    distribution = _distribution(name)
    if not distribution.files:
        raise CannotShip(f"the package {name} has no list of its files: install it with pip")
    return {
        str(PurePosixPath(file)): Path(str(file.locate()))
        for file in distribution.files
        if ".." not in file.parts and file.suffix not in _LEFT_OUT and Path(str(file.locate())).is_file()
    }


def _write_directory(directory: Path, contents: Mapping[str, bytes]) -> None:
    unfinished = Path(tempfile.mkdtemp(prefix=f"{directory.name}-", dir=directory.parent))
    for name, data in contents.items():
        path = unfinished / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    unfinished.chmod(0o755)
    try:
        unfinished.rename(directory)
    except OSError:  # another process may have written it first
        if not directory.exists():
            raise


def _write_archive(archive: Path, contents: Mapping[str, bytes]) -> None:
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", compresslevel=1, mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w") as tar,
    ):
        for name, data in contents.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), 0o755 if name.endswith(".so") else 0o644
            tar.addfile(member, io.BytesIO(data))
    with tempfile.NamedTemporaryFile(dir=archive.parent, prefix=archive.name, delete=False) as unfinished:
        unfinished.write(packed.getvalue())
    os.chmod(unfinished.name, 0o644)
    os.replace(unfinished.name, archive)
