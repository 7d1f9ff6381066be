from penstock.protocol.kernels.record_encoder_py import encode_rows as encode_rows
from penstock.protocol.kernels.record_encoder_py import key_hash as key_hash
