"""The loops over records: compiled where a C compiler was at hand at installation, else plain Python."""

import os
from typing import TYPE_CHECKING

__all__ = ["kernel"]

if TYPE_CHECKING or os.environ.get("PENSTOCK_PURE_PYTHON"):
    from penstock.protocol import _kernel_py as kernel
else:
    try:
        from penstock.protocol import _kernel as kernel
    except ImportError:
        from penstock.protocol import _kernel_py as kernel
