from penstock.protocol.kernels.compaction_py import OffsetMap as OffsetMap
from penstock.protocol.kernels.compaction_py import index_records as index_records
from penstock.protocol.kernels.compaction_py import judge_records as judge_records
from penstock.protocol.kernels.compaction_py import rebuild_records as rebuild_records

OFFSET_MAP_SLOT_BYTES: int
