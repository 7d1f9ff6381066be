from penstock.protocol.kernels.column_encoder_py import RowEncoder as RowEncoder
from penstock.protocol.kernels.column_encoder_py import partition_keys as partition_keys
from penstock.protocol.kernels.column_encoder_py import split_rows as split_rows
