"""Records for tests: Hypothesis strategies, and batches that Apache Kafka's own library wrote."""

from hypothesis import strategies as st

from penstock.protocol.records import Record

INT64_MAX = 2**63 - 1

timestamps = st.one_of(
    st.integers(min_value=-1, max_value=2**43), st.integers(min_value=-(2**62), max_value=2**62)
)
contents = st.one_of(st.none(), st.binary(max_size=40), st.just(b""), st.binary(min_size=60, max_size=300))
headers = st.lists(st.tuples(st.text(max_size=8), contents), max_size=3).map(tuple)
records = st.builds(Record, st.just(0), timestamps, contents, contents, headers)
record_lists = st.lists(records, min_size=1, max_size=12)


def numbered(rows: list[Record], base_offset: int = 0) -> list[Record]:
    """The rows with the offsets that a batch gives them."""
    return [row._replace(offset=base_offset + index) for index, row in enumerate(rows)]


def mutations(data: bytes) -> st.SearchStrategy[bytes]:
    """`data` cut short, or with a few bytes changed."""
    changes = st.lists(st.tuples(st.integers(0, len(data) - 1), st.integers(0, 255)), min_size=1, max_size=4)

    def changed(edits: list[tuple[int, int]]) -> bytes:
        out = bytearray(data)
        for position, value in edits:
            out[position] = value
        return bytes(out)

    return st.one_of(st.integers(0, len(data) - 1).map(lambda end: data[:end]), changes.map(changed))


# Written by kafka-clients 4.3.1: MemoryRecords.withRecords at base offset 100 and leader epoch 4.
JAVA_V2 = {
    "none": bytes.fromhex(
        "00000000000000640000006a0000000402451122c40000000000020000018bcfe568000000018bcfe569f4ffffffffff"
        "ffffffffffffffffff0000000352000000046b3132612076616c75652c20612076616c75652c20612076616c75650402"
        "68027804c3a9010c0013020100000e00e80704000100"
    ),
    "gzip": bytes.fromhex(
        "00000000000000640000007000000004021de04b130001000000020000018bcfe568000000018bcfe569f4ffffffffff"
        "ffffffffffffffffff000000031f8b08000000000000ff0b62606060c936344a54284bcc294dd5514067b030653055b0"
        "1c5ec9c8c320ccc4c8c0c0c7f0829d8581910100612cb03c39000000"
    ),
    "snappy": bytes.fromhex(
        "0000000000000064000000740000000402cbe242df0002000000020000018bcfe568000000018bcfe569f4ffffffffff"
        "ffffffffffffffffff0000000382534e415050590000000001000000010000002f394052000000046b3132612076616c"
        "75652c203e09005c040268027804c3a9010c0013020100000e00e80704000100"
    ),
    "lz4": bytes.fromhex(
        "00000000000000640000006f0000000402d53307220003000000020000018bcfe568000000018bcfe569f4ffffffffff"
        "ffffffffffffffffff0000000304224d186040822f000000fc0252000000046b3132612076616c75652c200900f00904"
        "0268027804c3a9010c0013020100000e00e8070400010000000000"
    ),
    "zstd": bytes.fromhex(
        "00000000000000640000006d0000000402e719f3960004000000020000018bcfe568000000018bcfe569f4ffffffffff"
        "ffffffffffffffffff0000000328b52ffd0058840100940252000000046b3132612076616c75652c20040268027804c3"
        "a9010c0013020100000e00e807040001000100899425010000"
    ),
}
JAVA_RECORDS = [
    Record(
        100,
        1700000000000,
        b"k1",
        b"a value, a value, a value",
        (("h", b"x"), ("é", None)),
    ),
    Record(101, 1699999999990, None, b""),
    Record(102, 1700000000500, b"", None),
]

# By (magic, codec). Records as above, without headers, and for magic 0 without timestamps.
JAVA_LEGACY = {
    (0, "none"): bytes.fromhex(
        "00000000000000640000002986a9ecf90000000000026b3100000019612076616c75652c20612076616c75652c206120"
        "76616c756500000000000000650000000e795748e00000ffffffff0000000000000000000000660000000e3d31489500"
        "0000000000ffffffff"
    ),
    (1, "none"): bytes.fromhex(
        "0000000000000064000000312dabe53001000000018bcfe56800000000026b3100000019612076616c75652c20612076"
        "616c75652c20612076616c75650000000000000065000000166abdcf6501000000018bcfe567f6ffffffff0000000000"
        "00000000000066000000161ee4d72501000000018bcfe569f400000000ffffffff"
    ),
    (0, "gzip"): bytes.fromhex(
        "00000000000000660000005b61d342040001ffffffff0000004d1f8b08000000000000ff636000831420d66c5bf9e627"
        "98c7946d0824251315ca12734a537514d019103d0c209aaf32dce30103c37f2060408034908cada1c7540817240b009a"
        "09b63869000000"
    ),
    (1, "gzip"): bytes.fromhex(
        "00000000000000660000006f72d98a1001010000018bcfe569f4ffffffff000000591f8b08000000000000ff63608003"
        "43ddd54f0d18810cc6eef34f3340224cd98640523251a12c31a7345547019d01d508d22396b5f77c2a4c73fab7ff4080"
        "30998109a442eec97555988acc2f2061902a00153b977e81000000"
    ),
    (0, "snappy"): bytes.fromhex(
        "000000000000006600000072b47953cb0002ffffffff0000006482534e41505059000000000100000001000000506900"
        "00090120640000002986a9ecf9050f3c026b3100000019612076616c75652c203e090005250400000108280e795748e0"
        "0000ffffffff0d16010148660000000e3d314895000000000000ffffffff"
    ),
    (1, "snappy"): bytes.fromhex(
        "00000000000000660000008921a2b01801020000018bcfe569f4ffffffff0000007382534e4150505900000000010000"
        "00010000005f81010000190134312dabe53001000000018bcfe56801183c026b3100000019612076616c75652c203e09"
        "00012408000000013410166abdcf650109013d1467f6ffffffff011b0d012002000000161ee4d72511222469f4000000"
        "00ffffffff"
    ),
    (0, "lz4"): bytes.fromhex(
        "00000000000000660000006f8d59369d0003ffffffff0000006104224d1860401a520000001200010091640000002986"
        "a9ecf90f00fc01026b3100000019612076616c75652c200900012500f0020000650000000e795748e00000ffffffff13"
        "0003020010661a00e03d314895000000000000ffffffff00000000"
    ),
    (1, "lz4"): bytes.fromhex(
        "000000000000006600000081a16e54b501030000018bcfe569f4ffffffff0000006b04224d186040825c000000160001"
        "00e0312dabe53001000000018bcfe5681800fc01026b3100000019612076616c75652c20090000240000300084000000"
        "166abdcf653d006167f6ffffffff1c0002020010022200441ee4d7252200a069f400000000ffffffff00000000"
    ),
}
