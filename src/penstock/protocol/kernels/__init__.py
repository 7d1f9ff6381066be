"""The loops over records, each in two implementations with one behaviour: compiled (Cython) and in Python.

    column_decoder    batches → columns
    column_encoder    columns → batches, and the partitions of rows
    compaction        the steps of compaction on one batch
    compaction_runs   the same for many small batches per call
    batch_checks      checks of batches as read from a disk
    record_checks     checks of produced batches, of their records or as a whole
    record_encoder    records → the body of a batch, and the hash of keys

Each `.pyx` has a twin `_py.py`, whose docstrings describe both: they accept and refuse the same input, and
produce the same bytes. The twins are used if no C compiler was available at installation, and tests compare
the compiled modules with them. `raw_bytes`, `batch_header` and `crc32c` are shared by the compiled modules. A
loop enters this package if it runs once per record and needs compiling.

The compiled modules check every length and varint from outside against the remaining bytes before they use
it, and their loops run without the GIL. They read buffers of any format as raw bytes; a buffer must not
change during a call.

`kernel` is all compiled or all Python, never mixed, because the compiled modules accept only each other's
types.
"""

import os
from typing import TYPE_CHECKING, Final

__all__ = ["IMPLEMENTATION", "kernel"]

if TYPE_CHECKING or os.environ.get("PENSTOCK_PURE_PYTHON"):
    from penstock.protocol.kernels import pure as kernel
else:
    try:
        from penstock.protocol.kernels import compiled as kernel
    except ImportError:
        from penstock.protocol.kernels import pure as kernel

IMPLEMENTATION: Final = "compiled" if kernel.__name__.endswith(".compiled") else "python"
"""Which of the two this process uses."""
