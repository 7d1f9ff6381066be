from penstock.protocol._kernel_py import ColumnBuilder as ColumnBuilder
from penstock.protocol._kernel_py import OffsetMap as OffsetMap
from penstock.protocol._kernel_py import RowEncoder as RowEncoder
from penstock.protocol._kernel_py import count_keyless as count_keyless
from penstock.protocol._kernel_py import index_records as index_records
from penstock.protocol._kernel_py import judge_records as judge_records
from penstock.protocol._kernel_py import partition_keys as partition_keys
from penstock.protocol._kernel_py import rebuild_records as rebuild_records
from penstock.protocol._kernel_py import split_rows as split_rows

IMPLEMENTATION: str
OFFSET_MAP_SLOT_BYTES: int
