"""Builds the optional compiled kernels; without a C compiler the pure-Python twins serve."""

from pathlib import Path

from setuptools import Extension, setup

KERNELS = Path("src/penstock/protocol/kernels")

# Each may fail alone, and installation goes on; `penstock.protocol.kernels` then takes none of them.
setup(
    ext_modules=[
        Extension(
            f"penstock.protocol.kernels.{source.stem}",
            [str(source)],
            depends=sorted(map(str, [*KERNELS.glob("*.pxd"), *KERNELS.glob("*.h")])),
            optional=True,
            extra_compile_args=["-O3", "-g0"],
        )
        for source in sorted(KERNELS.glob("*.pyx"))
    ]
)
