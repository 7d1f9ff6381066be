from penstock.protocol._kernel_py import ColumnBuilder as ColumnBuilder
from penstock.protocol._kernel_py import FilteredRun as FilteredRun
from penstock.protocol._kernel_py import IndexMarks as IndexMarks
from penstock.protocol._kernel_py import OffsetMap as OffsetMap
from penstock.protocol._kernel_py import ProducerIds as ProducerIds
from penstock.protocol._kernel_py import RowEncoder as RowEncoder
from penstock.protocol._kernel_py import Run as Run
from penstock.protocol._kernel_py import RunFilter as RunFilter
from penstock.protocol._kernel_py import check_batches as check_batches
from penstock.protocol._kernel_py import count_keyless as count_keyless
from penstock.protocol._kernel_py import index_records as index_records
from penstock.protocol._kernel_py import index_run as index_run
from penstock.protocol._kernel_py import judge_records as judge_records
from penstock.protocol._kernel_py import partition_keys as partition_keys
from penstock.protocol._kernel_py import rebuild_records as rebuild_records
from penstock.protocol._kernel_py import split_rows as split_rows

IMPLEMENTATION: str
KEPT_IN_EMPTY: int
KEPT_WHEN_REBUILT: int
OFFSET_MAP_SLOT_BYTES: int
