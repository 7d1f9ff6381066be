from penstock.protocol.batch import Buffer
from penstock.protocol.kernels.batch_checks_py import check_batches as check_batches

def checksums(data: Buffer) -> tuple[int, int]: ...
