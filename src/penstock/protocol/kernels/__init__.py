"""The loops over records, each twice: compiled (Cython) and in Python, one API and one behaviour.

    column_decoder    batches → columns
    column_encoder    columns → batches, and the partitions of rows
    compaction        what compaction asks of one batch
    compaction_runs   the same for many small ones a call
    batch_checks      batches as a disk gave them

Beside each `.pyx` lies its twin `_py.py`, whose docstrings say what both do: they accept and refuse the same
input and give the same bytes. The twins serve where no C compiler was at hand at installation, and are the
oracle in tests. `raw_bytes`, `batch_header` and `crc32c` are what the compiled ones share.

In these every length and varint that comes from outside is checked against the bytes that remain before it
is used; the loops run without the GIL. Buffers are taken raw (any format), and must not change meanwhile.

`kernel` is all compiled or all Python, never mixed: the compiled parts take each other's types and no others.
"""

import os
from typing import TYPE_CHECKING

__all__ = ["kernel"]

if TYPE_CHECKING or os.environ.get("PENSTOCK_PURE_PYTHON"):
    from penstock.protocol.kernels import pure as kernel
else:
    try:
        from penstock.protocol.kernels import compiled as kernel
    except ImportError:
        from penstock.protocol.kernels import pure as kernel
