"""Compile a C program from its sources, once, into the user's cache."""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path


class BuildError(RuntimeError):
    """No C compiler is installed, or it rejects the program; the message gives the compiler's output."""


def build(directory: Path, libraries: Sequence[str]) -> Path:
    """Compile the C files of *directory* with *libraries* (such as `-lpthread`), and return the program.

    Raises:
        BuildError: the program cannot be built here.
    """
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "penstock"
    name = directory.name
    digest = hashlib.sha256()
    for source in sorted(directory.glob("*.[ch]")):
        digest.update(f"{source.name}\0".encode() + source.read_bytes())
    program = cache / f"{name}-{digest.hexdigest()[:16]}"
    if program.exists():
        return program
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise BuildError(f"{name} needs a C compiler: install gcc or clang (Debian: apt install gcc)")
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        built = Path(scratch) / name
        sources = map(str, sorted(directory.glob("*.c")))
        command = [compiler, "-O2", "-o", str(built), *sources, *libraries]
        finished = subprocess.run(command, capture_output=True, text=True, check=False)
        if finished.returncode != 0:
            raise BuildError(f"{name} does not compile: {finished.stderr.strip()}")
        built.rename(program)
    return program
