from penstock.connect.cdc.postgres.kernels.changes_py import (
    Change as Change,
)
from penstock.connect.cdc.postgres.kernels.changes_py import (
    EnvelopeLayout as EnvelopeLayout,
)
from penstock.connect.cdc.postgres.kernels.changes_py import (
    RowLayout as RowLayout,
)
from penstock.connect.cdc.postgres.kernels.changes_py import (
    copied_row as copied_row,
)
from penstock.connect.cdc.postgres.kernels.changes_py import (
    key_json as key_json,
)
from penstock.connect.cdc.postgres.kernels.changes_py import (
    read_changes as read_changes,
)
from penstock.connect.cdc.postgres.kernels.changes_py import (
    value_json as value_json,
)
