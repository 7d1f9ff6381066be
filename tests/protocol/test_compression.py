import contextlib
import gzip
import random
import struct
import tracemalloc

import cramjam
import lz4.frame
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.codec import gzip_decode, gzip_encode, lz4_decode, lz4_encode
from record_samples import mutations

from penstock.protocol.compression import (
    LEVELS,
    Codec,
    CompressionError,
    DecompressedTooLarge,
    compress,
    decompress,
    repair_lz4_header,
)

COMPRESSING = [codec for codec in Codec if codec != Codec.NONE]
TEXT = b"".join(b"%d green bottles, " % number for number in range(20_000))
XERIAL_HEADER = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)


def xerial(*blocks: bytes) -> bytes:
    return XERIAL_HEADER + b"".join(struct.pack(">i", len(block)) + block for block in blocks)


def raw_snappy(data: bytes) -> bytes:
    return bytes(cramjam.snappy.compress_raw(data))


@pytest.mark.parametrize("codec", Codec)
@given(data=st.one_of(st.binary(max_size=300), st.binary(max_size=20).map(lambda part: part * 10_000)))
def test_round_trip(codec: Codec, data: bytes) -> None:
    packed = compress(codec, memoryview(data))
    assert bytes(decompress(codec, memoryview(packed), len(data))) == data


@pytest.mark.parametrize("codec", LEVELS)
def test_levels_are_those_kafka_takes(codec: Codec) -> None:
    lowest, highest, default = LEVELS[codec]
    assert compress(codec, TEXT, default) == compress(codec, TEXT)
    assert len(compress(codec, TEXT, highest)) < len(compress(codec, TEXT, lowest)) < len(TEXT) + 1000
    for level in (lowest, highest):
        assert bytes(decompress(codec, compress(codec, TEXT, level), len(TEXT))) == TEXT
    for level in (lowest - 1, highest + 1):
        if level != default:
            with pytest.raises(ValueError, match="level"):
                compress(codec, TEXT, level)


def test_unknown_codecs_are_named() -> None:
    with pytest.raises(ValueError, match="5"):
        compress(5, b"")
    with pytest.raises(ValueError, match="7"):
        decompress(7, b"")


@pytest.mark.parametrize("codec", COMPRESSING)
def test_bombs_stop_at_the_limit(codec: Codec) -> None:
    limit = 1 << 20
    bomb = compress(codec, bytes(64 << 20))
    tracemalloc.start()
    with pytest.raises(DecompressedTooLarge, match=str(limit)):
        decompress(codec, bomb, limit)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * limit + len(bomb)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_one_byte_above_the_limit_is_too_large(codec: Codec) -> None:
    packed = compress(codec, TEXT)
    assert bytes(decompress(codec, packed, len(TEXT))) == TEXT
    with pytest.raises(DecompressedTooLarge):
        decompress(codec, packed, len(TEXT) - 1)


@pytest.mark.parametrize("codec", COMPRESSING)
@given(data=st.data())
def test_damaged_data_raises_one_error(codec: Codec, data: st.DataObject) -> None:
    packed = data.draw(mutations(compress(codec, TEXT[:500])))
    with contextlib.suppress(CompressionError):
        decompress(codec, packed, 1 << 16)


@pytest.mark.parametrize("codec", COMPRESSING)
@given(noise=st.binary(max_size=100))
def test_noise_raises_one_error(codec: Codec, noise: bytes) -> None:
    with contextlib.suppress(CompressionError):
        decompress(codec, noise, 1 << 16)


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_truncated_data_is_refused(codec: Codec) -> None:
    packed = compress(codec, TEXT)
    for end in (0, 1, 10, len(packed) // 2, len(packed) - 1):
        with pytest.raises(CompressionError):
            decompress(codec, packed[:end], len(TEXT))


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_concatenated_streams_are_read_to_the_end(codec: Codec) -> None:
    packed = compress(codec, TEXT) + compress(codec, b"and the rest")
    assert bytes(decompress(codec, packed, 2 * len(TEXT))) == TEXT + b"and the rest"
    with pytest.raises(DecompressedTooLarge):
        decompress(codec, packed, len(TEXT) + 5)


ARROW_CODECS = {Codec.GZIP: "gzip", Codec.LZ4: "lz4", Codec.ZSTD: "zstd"}


@pytest.mark.parametrize("codec", ARROW_CODECS)
def test_arrow_reads_ours_and_we_read_arrows(codec: Codec) -> None:
    arrow = pa.Codec(ARROW_CODECS[codec])
    assert arrow.decompress(compress(codec, TEXT), len(TEXT), asbytes=True) == TEXT
    assert bytes(decompress(codec, arrow.compress(TEXT, asbytes=True), len(TEXT))) == TEXT


def test_kafka_python_reads_ours_and_we_read_kafka_pythons() -> None:
    assert gzip_decode(compress(Codec.GZIP, TEXT)) == TEXT
    assert lz4_decode(compress(Codec.LZ4, TEXT)) == TEXT
    assert decompress(Codec.GZIP, gzip_encode(TEXT), len(TEXT)) == TEXT
    assert decompress(Codec.LZ4, lz4_encode(TEXT), len(TEXT)) == TEXT
    assert gzip.decompress(compress(Codec.GZIP, TEXT)) == TEXT


def test_snappy_is_written_as_the_java_client_does() -> None:
    packed = compress(Codec.SNAPPY, TEXT)
    assert packed.startswith(XERIAL_HEADER)
    blocks, position = [], len(XERIAL_HEADER)
    while position < len(packed):
        (length,) = struct.unpack_from(">i", packed, position)
        blocks.append(packed[position + 4 : position + 4 + length])
        position += 4 + length
    snappy = pa.Codec("snappy")
    sizes = [min(32 * 1024, len(TEXT) - start) for start in range(0, len(TEXT), 32 * 1024)]
    unpacked = [
        snappy.decompress(block, size, asbytes=True) for block, size in zip(blocks, sizes, strict=True)
    ]
    assert b"".join(unpacked) == TEXT


@pytest.mark.parametrize(
    ("packed", "data"),
    [
        (raw_snappy(TEXT), TEXT),  # librdkafka and others write one bare block
        (pa.Codec("snappy").compress(TEXT, asbytes=True), TEXT),
        (xerial(raw_snappy(b"ab"), raw_snappy(b"cd")), b"abcd"),
        (xerial(raw_snappy(b"ab")) + xerial(raw_snappy(b"cd")), b"abcd"),
        (xerial(), b""),
        (xerial(raw_snappy(b"")), b""),
        (XERIAL_HEADER[:8] + struct.pack("<ii", 1, 1) + xerial(raw_snappy(b"x"))[16:], b"x"),
    ],
    ids=["bare", "arrow", "blocks", "streams", "no block", "empty block", "version little-endian"],
)
def test_snappy_is_read_however_it_is_framed(packed: bytes, data: bytes) -> None:
    assert bytes(decompress(Codec.SNAPPY, packed, len(data))) == data


@pytest.mark.parametrize(
    "packed",
    [
        xerial(raw_snappy(b"ab")) + b"\x00\x00",
        xerial(raw_snappy(b"ab"))[:-1],
        xerial() + struct.pack(">i", -5),
        xerial() + struct.pack(">i", 2**31 - 1),
        b"\xff\xff\xff\xff\xff\x0f",
    ],
    ids=["half a length", "half a block", "negative length", "huge length", "impossible size"],
)
def test_damaged_snappy_framing_is_refused(packed: bytes) -> None:
    with pytest.raises(CompressionError):
        decompress(Codec.SNAPPY, packed, 1 << 40)


def test_a_snappy_block_that_claims_gigabytes_is_too_large() -> None:
    with pytest.raises(DecompressedTooLarge):
        decompress(Codec.SNAPPY, b"\xff\xff\xff\xff\x0f" + b"x" * 20, 1 << 20)


def test_lz4_frames_suit_the_java_client() -> None:
    info = lz4.frame.get_frame_info(compress(Codec.LZ4, TEXT))
    assert info["block_linked"] is False
    assert info["block_size"] == 64 * 1024
    assert info["content_size"] == 0
    assert info["content_checksum"] is False


def test_the_lz4_header_of_old_messages_is_repaired() -> None:
    frame = bytearray(compress(Codec.LZ4, TEXT))
    good = bytes(frame)
    frame[6] ^= 0x5A
    with pytest.raises(CompressionError):
        decompress(Codec.LZ4, frame, len(TEXT))
    assert repair_lz4_header(frame) == good
    sized = bytearray(lz4.frame.compress(TEXT, store_size=True))
    sized[14] ^= 1
    assert bytes(decompress(Codec.LZ4, repair_lz4_header(sized), len(TEXT))) == TEXT
    for broken in (b"", b"\x04\x22\x4d", b"not a frame at all"):
        with pytest.raises(CompressionError):
            repair_lz4_header(broken)


def streamed_zstd(data: bytes, chunk_bytes: int) -> bytes:
    """A frame without content size and with many blocks, as the Java client's stream writes it."""
    compressor = cramjam.zstd.Compressor()
    parts = []
    for start in range(0, len(data), chunk_bytes):
        compressor.compress(data[start : start + chunk_bytes])
        parts.append(bytes(compressor.flush()))
    parts.append(bytes(compressor.finish()))
    return b"".join(parts)


def test_zstd_frames_without_content_size() -> None:
    packed = streamed_zstd(TEXT, 5_000)
    assert bytes(decompress(Codec.ZSTD, packed, len(TEXT))) == TEXT
    with pytest.raises(DecompressedTooLarge):
        decompress(Codec.ZSTD, packed, len(TEXT) - 1)


def test_zstd_skippable_frames_hold_nothing() -> None:
    skippable = struct.pack("<II", 0x184D2A53, 6) + b"ignore"
    packed = skippable + compress(Codec.ZSTD, TEXT) + skippable
    assert bytes(decompress(Codec.ZSTD, packed, len(TEXT))) == TEXT


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
@pytest.mark.parametrize("streams", [1, 3])
def test_large_outputs_are_put_together_from_pieces(codec: Codec, streams: int) -> None:
    data = random.Random(5).randbytes(300_000) * 9 + bytes(6_000_000)
    packed = compress(codec, data) * streams
    assert bytes(decompress(codec, packed)) == data * streams
