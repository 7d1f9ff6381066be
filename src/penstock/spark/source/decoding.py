"""The options that say which columns the source has and what the bytes of keys and values are."""

from __future__ import annotations

from penstock.arrow.decoded import Format
from penstock.arrow.formats import FORMATS, make_format
from penstock.arrow.layout import DECODE_ERRORS, Layout
from penstock.client.settings import boolean, one_of, text
from penstock.spark.options import Options


def take_layout(options: Options) -> Layout:
    """``keyFormat``, ``keySchema`` and the same for values, ``decodeErrors``, ``includeHeaders``.

    Raises ConfigError.
    """
    policy = options.take("decodeErrors", one_of(*DECODE_ERRORS), "fail")
    return Layout(
        key=_take_format(options, "key"),
        value=_take_format(options, "value"),
        decode_errors="null" if policy == "null" else "fail",
        include_headers=options.take("includeHeaders", boolean, False),
        timestamp_unit="us",
    )


def _take_format(options: Options, part: str) -> Format:
    name = options.take(f"{part}Format", one_of(*FORMATS), "binary")
    schema = options.take(f"{part}Schema", text, "")
    return make_format(name, schema or None)
