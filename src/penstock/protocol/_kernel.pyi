from penstock.protocol._kernel_py import ColumnBuilder as ColumnBuilder
from penstock.protocol._kernel_py import RowEncoder as RowEncoder
from penstock.protocol._kernel_py import partition_keys as partition_keys
from penstock.protocol._kernel_py import split_rows as split_rows

IMPLEMENTATION: str
