"""Builds the optional compiled kernels; without a C compiler the pure-Python twins serve."""

from setuptools import Extension, setup

setup(
    ext_modules=[
        Extension(
            "penstock.protocol._kernel",
            ["src/penstock/protocol/_kernel.pyx"],
            optional=True,
            extra_compile_args=["-O3"],
        )
    ]
)
