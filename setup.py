"""Builds the optional compiled kernels, and the description that package indexes show.

Without a C compiler the pure-Python twins serve.
"""

import re
import shutil
import tomllib
from pathlib import Path
from typing import Any

from setuptools import Extension, setup
from setuptools.command.build import build
from setuptools.command.build_ext import build_ext

KERNELS = (Path("src/penstock/protocol/kernels"), Path("src/penstock/connect/cdc/postgres/kernels"))


class FreshBuild(build):
    """A build without the files of earlier builds.

    setuptools puts everything below ``build/lib*`` into the wheel: kernels of other sources if these do not
    compile any more, and modules that have been removed.
    """

    def run(self) -> None:
        if Path(self.build_base).resolve() in Path(self.build_lib).resolve().parents:
            shutil.rmtree(self.build_lib, ignore_errors=True)
        super().run()


class FreshKernels(build_ext):
    """Compiles all kernels, whatever the times of earlier ones are; none of an earlier build stays."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.force = True

    def run(self) -> None:
        if self.inplace or self.editable_mode:
            for earlier in (found for room in KERNELS for found in room.glob("*.so")):
                earlier.unlink()
        super().run()


def description() -> str:
    """README.md for pages of package indexes, where its links to files of the repository lead nowhere.

    They become links into the repository if pyproject.toml names it (``Source`` in ``project.urls``), and
    else plain text.
    """
    project: dict[str, Any] = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    source = project.get("urls", {}).get("Source")
    linked = r"\1" if source is None else rf"[\1]({source}/blob/main/\2)"
    return re.sub(r"\[([^\]]+)\]\((?!\w+:)([^)]+)\)", linked, Path("README.md").read_text())


# Each may fail alone, and installation goes on; its package then takes none of its kernels.
setup(
    cmdclass={"build": FreshBuild, "build_ext": FreshKernels},
    long_description=description(),
    long_description_content_type="text/markdown",
    ext_modules=[
        Extension(
            ".".join(source.with_suffix("").parts[1:]),
            [str(source)],
            depends=sorted(map(str, [*room.glob("*.pxd"), *room.glob("*.h")])),
            optional=True,
            extra_compile_args=["-O3", "-g0"],
        )
        for room in KERNELS
        for source in sorted(room.glob("*.pyx"))
    ],
)
