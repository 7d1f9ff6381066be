from penstock.protocol.kernels.compaction_runs_py import IndexMarks as IndexMarks
from penstock.protocol.kernels.compaction_runs_py import ProducerIds as ProducerIds
from penstock.protocol.kernels.compaction_runs_py import RunFilter as RunFilter
from penstock.protocol.kernels.compaction_runs_py import index_run as index_run
