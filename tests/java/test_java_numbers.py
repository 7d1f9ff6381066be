"""Numbers are cast, rounded and printed as Java does it; what the answers are, a JVM has said."""

import math
from decimal import Decimal

import pytest

from penstock.java.numbers import (
    decimal_of,
    double_text,
    float32,
    float32_of_exact,
    float64,
    float_text,
    low_bits,
    saturated,
    scale_of,
    wrapped,
)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (0.001, "0.001"),
        (0.0001, "1.0E-4"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (-1.5e300, "-1.5E300"),
        (5e-324, "4.9E-324"),
        (2e23, "2.0E23"),
        (math.nan, "NaN"),
        (-math.inf, "-Infinity"),
    ],
)
def test_doubles_have_the_texts_of_java(value: float, text: str) -> None:
    assert double_text(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.1, "0.1"),
        (1e-45, "1.4E-45"),
        (3.4028235e38, "3.4028235E38"),
        (16777216.0, "1.6777216E7"),
        (-0.0, "-0.0"),
    ],
)
def test_floats_have_the_texts_of_java(value: float, text: str) -> None:
    assert float_text(float32(value)) == text


def test_casts_keep_the_low_order_bits() -> None:
    assert (wrapped(128, 8), wrapped(-129, 8), wrapped(1 << 31, 32)) == (-128, 127, -(1 << 31))
    assert low_bits(Decimal("1e30"), 64) == 5076944270305263616
    assert low_bits(Decimal("-0.9"), 32) == 0
    assert low_bits(Decimal("1e999999999"), 64) == 0


def test_casts_of_doubles_give_the_nearest_integer() -> None:
    assert (saturated(1e30, 64), saturated(-math.inf, 32)) == ((1 << 63) - 1, -(1 << 31))
    assert (saturated(math.nan, 64), saturated(-1.9, 64)) == (0, -1)


def test_a_float_is_the_nearest_to_all_digits() -> None:
    """By way of a double, this number would become the even of two floats, which lies farther away."""
    exact = Decimal("1.000000059604644775390625000001")
    assert float32(float(exact)) == 1.0
    assert float32_of_exact(exact) == 1.0000001192092896
    assert float32_of_exact(10**40) == math.inf
    assert float64(-(10**400)) == -math.inf


def test_decimals_are_parsed_as_bigdecimal() -> None:
    assert decimal_of("-0.0") == 0
    assert str(decimal_of("-0.00")) == "0.00"
    assert decimal_of(" 1") is None
    assert decimal_of("1_0") is None
    assert decimal_of("NaN") is None
    assert decimal_of("1e99999999999") is None
    assert scale_of(Decimal("1.50")) == 2
    assert scale_of(Decimal("1e3")) == -3
