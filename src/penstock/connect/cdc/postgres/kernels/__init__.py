"""The loops over changes, in two implementations with one behaviour: compiled (Cython) and in Python.

`changes_py` describes both; it is used if no C compiler was available at installation. A loop enters this
room if it runs once per change and needs compiling.
"""

import os
from typing import TYPE_CHECKING

from penstock.connect.cdc.postgres.kernels.changes_py import Cell, Place, Scalar, Slot, tuple_data

__all__ = [
    "Cell",
    "Change",
    "EnvelopeLayout",
    "Place",
    "RowLayout",
    "Scalar",
    "Slot",
    "copied_row",
    "key_json",
    "read_changes",
    "tuple_data",
    "value_json",
]

if TYPE_CHECKING or os.environ.get("PENSTOCK_PURE_PYTHON"):
    from penstock.connect.cdc.postgres.kernels.changes_py import (
        Change,
        EnvelopeLayout,
        RowLayout,
        copied_row,
        key_json,
        read_changes,
        value_json,
    )
else:
    try:
        from penstock.connect.cdc.postgres.kernels.changes import (
            Change,
            EnvelopeLayout,
            RowLayout,
            copied_row,
            key_json,
            read_changes,
            value_json,
        )
    except ImportError:
        from penstock.connect.cdc.postgres.kernels.changes_py import (
            Change,
            EnvelopeLayout,
            RowLayout,
            copied_row,
            key_json,
            read_changes,
            value_json,
        )
