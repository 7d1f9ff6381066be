"""The Python kernel."""

from penstock.protocol.kernels.batch_checks_py import check_batches
from penstock.protocol.kernels.column_decoder_py import ColumnBuilder
from penstock.protocol.kernels.column_encoder_py import RowEncoder, partition_keys, split_rows
from penstock.protocol.kernels.compaction_py import (
    OFFSET_MAP_SLOT_BYTES,
    OffsetMap,
    index_records,
    judge_records,
    rebuild_records,
)
from penstock.protocol.kernels.compaction_runs_py import (
    KEPT_IN_EMPTY,
    KEPT_WHEN_REBUILT,
    FilteredRun,
    IndexMarks,
    ProducerIds,
    Run,
    RunFilter,
    index_run,
)
from penstock.protocol.kernels.record_checks_py import check_plain_batch, check_records
from penstock.protocol.kernels.record_encoder_py import encode_rows, key_hash

__all__ = [
    "IMPLEMENTATION",
    "KEPT_IN_EMPTY",
    "KEPT_WHEN_REBUILT",
    "OFFSET_MAP_SLOT_BYTES",
    "ColumnBuilder",
    "FilteredRun",
    "IndexMarks",
    "OffsetMap",
    "ProducerIds",
    "RowEncoder",
    "Run",
    "RunFilter",
    "check_batches",
    "check_plain_batch",
    "check_records",
    "encode_rows",
    "index_records",
    "index_run",
    "judge_records",
    "key_hash",
    "partition_keys",
    "rebuild_records",
    "split_rows",
]

IMPLEMENTATION = "pure"
