from penstock.protocol.kernels.column_decoder_py import ColumnBuilder as ColumnBuilder
