"""C functions for operations that C has no operator or function for; ``to_c`` puts them before its own function.

Words in angle brackets are replaced: ``<T>`` by the compute type, ``<U>`` by an unsigned type of 32 or 64 bits that
holds it, ``<FMOD>`` and similar words by names of functions of the mathematical library, ``<UINT32>`` by the type of a
dtype, ``<bits:x>`` and ``<float:x>`` by reinterpretations of a float32.
"""

from __future__ import annotations

from typing import Final

__all__ = ["HELPERS"]

HELPERS: Final[dict[tuple[str, str], str]] = {
    ("floor_divide", "float"): """\
<HEAD> <NAME>(<T> x, <T> y)
{
    if (y == 0)
        return x / y;
    <T> rest = <FMOD>(x, y);
    <T> quotient = (x - rest) / y;
    if (rest != 0 && (y < 0) != (rest < 0))
        quotient -= 1;
    if (quotient == 0)
        return <COPYSIGN>((<T>)0, x / y);
    <T> whole = <FLOOR>(quotient);
    return quotient - whole > (<T>)0.5 ? whole + 1 : whole;
}
""",
    ("remainder", "float"): """\
<HEAD> <NAME>(<T> x, <T> y)
{
    <T> rest = <FMOD>(x, y);
    if (y == 0)
        return rest;
    if (rest == 0)
        return <COPYSIGN>((<T>)0, y);
    return (y < 0) != (rest < 0) ? rest + y : rest;
}
""",
    ("floor_divide", "int"): """\
<HEAD> <NAME>(<T> x, <T> y)
{
    if (y == 0)
        return 0;
    if (y == -1)
        return (<T>)(0 - (<U>)x);
    <T> quotient = (<T>)(x / y);
    return (<T>)(x % y != 0 && (x < 0) != (y < 0) ? quotient - 1 : quotient);
}
""",
    ("remainder", "int"): """\
<HEAD> <NAME>(<T> x, <T> y)
{
    if (y == 0 || y == -1)
        return 0;
    <T> rest = (<T>)(x % y);
    return (<T>)(rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest);
}
""",
    ("floor_divide", "uint"): """\
<HEAD> <NAME>(<T> x, <T> y)
{
    return (<T>)(y == 0 ? 0 : x / y);
}
""",
    ("remainder", "uint"): """\
<HEAD> <NAME>(<T> x, <T> y)
{
    return (<T>)(y == 0 ? 0 : x % y);
}
""",
    ("bitwise_left_shift", "any"): """\
<HEAD> <NAME>(<T> x, <T> y)
{
    return (<T>)(y >= 0 && y < <BITS> ? (<U>)x << y : 0);
}
""",
    ("bitwise_right_shift", "any"): """\
<HEAD> <NAME>(<T> x, <T> y)
{
    return (<T>)(y >= 0 && y < <BITS> ? x >> y : (x < 0 ? -1 : 0));
}
""",
    ("pow", "any"): """\
<HEAD> <NAME>(<T> x, <T> y)
{
    <U> result = 1, base = (<U>)x;
    for (<U> n = (<U>)y; n != 0; n >>= 1) {
        if (n & 1)
            result *= base;
        base *= base;
    }
    return (<T>)result;
}
""",
    ("nextafter", "any"): """\
<HEAD> <NAME>(<T> x, <T> y)
{
    if (x != x || y != y)
        return x + y;
    if (x == y)
        return y;
    <UINT32> bits = <bits:x>;
    if (x == 0)
        bits = (<bits:y> & 0x80000000U) | 1;
    else
        bits += (x < y) == (x > 0) ? 1 : -1;
    return <float:bits>;
}
""",
    # Conversions. C leaves those of NaN and of values out of range undefined; here they are the most negative integer.
    **{
        ("whole_" + dtype, "any"): f"""\
<PREFIX><INT64> <NAME>(<{dtype.upper()}> x)
{{
    return x >= -{limit} && x < {limit} ? (<INT64>)x : (<INT64>)((<UINT64>)1 << 63);
}}
"""
        for dtype, limit in (("float32", "9223372036854775808.0f"), ("float64", "9223372036854775808.0"))
    },
    **{
        ("unsigned_" + dtype, "any"): f"""\
<PREFIX><UINT64> <NAME>(<{dtype.upper()}> x)
{{
    return x >= {limit} && x < 2 * {limit} ? (<UINT64>)x : (<UINT64>)<call:whole_{dtype}>(x);
}}
"""
        for dtype, limit in (("float32", "9223372036854775808.0f"), ("float64", "9223372036854775808.0"))
    },
    ("from_float16", "any"): """\
<PREFIX><FLOAT32> <NAME>(<UINT16> half_bits)
{
    <UINT32> sign = (<UINT32>)(half_bits & 0x8000) << 16, rest = half_bits & 0x7fff;
    <FLOAT32> small = (<FLOAT32>)rest * 5.9604644775390625e-08f;
    <UINT32> bits = rest < 0x400 ? <bits:small> : (rest << 13) + (rest < 0x7c00 ? 0x38000000U : 0x70000000U);
    bits |= sign;
    return <float:bits>;
}
""",
    # Below the smallest normal number, adding 0.5 rounds to multiples of the smallest subnormal one.
    ("to_float16", "any"): """\
<PREFIX><UINT16> <NAME>(<FLOAT32> x)
{
    <UINT32> bits = <bits:x>, sign = bits >> 16 & 0x8000;
    bits &= 0x7fffffffU;
    if (bits > 0x7f800000U)
        return (<UINT16>)(sign | 0x7e00);
    if (bits >= 0x477ff000U)
        return (<UINT16>)(sign | 0x7c00);
    if (bits < 0x38800000U) {
        <FLOAT32> sum = <float:bits> + 0.5f;
        return (<UINT16>)(sign | (<bits:sum> - 0x3f000000U));
    }
    bits += 0xfff + (bits >> 13 & 1);
    return (<UINT16>)(sign | (bits - 0x38000000U) >> 13);
}
""",
    ("from_bfloat16", "any"): """\
<PREFIX><FLOAT32> <NAME>(<UINT16> upper)
{
    <UINT32> bits = (<UINT32>)upper << 16;
    return <float:bits>;
}
""",
    ("to_bfloat16", "any"): """\
<PREFIX><UINT16> <NAME>(<FLOAT32> x)
{
    <UINT32> bits = <bits:x>;
    if (x != x)
        return (<UINT16>)((bits >> 16 & 0x8000) | 0x7fc0);
    bits += 0x7fff + (bits >> 16 & 1);
    return (<UINT16>)(bits >> 16);
}
""",
    # Rounded towards zero, with an odd last digit where that lost something: rounding this again is rounding once.
    ("odd", "any"): """\
<PREFIX><FLOAT32> <NAME>(<FLOAT64> x)
{
    <FLOAT32> near = (<FLOAT32>)x;
    <UINT32> bits = <bits:near>;
    if ((<FLOAT64>)near == x || x != x || bits << 1 == 0xff000000U)
        return near;
    if ((x < 0 ? -x : x) < (x < 0 ? -(<FLOAT64>)near : (<FLOAT64>)near))
        bits -= 1;
    bits |= 1;
    return <float:bits>;
}
""",
    # Recurrence, asymptotic series and reflection as in `reference`: Abramowitz and Stegun 6.3.5, 6.3.7, 6.3.18.
    ("digamma", "any"): """\
<HEAD> <NAME>(<T> x)
{
    <T> below = 0;
    if (x == 0)
        return <COPYSIGN>((<T>)INFINITY, -x);
    if (x < 0) {
        <T> fraction = <FMOD>(x, (<T>)1);
        if (fraction == 0 || x == -INFINITY)
            return NAN;
        below = -(<T>)3.14159265358979323846 / <TAN>((<T>)3.14159265358979323846 * fraction);
        x = 1 - x;
    }
    if (x == INFINITY || x != x)
        return x;
    <T> shift = 0;
    while (x < 10) {
        shift -= 1 / x;
        x += 1;
    }
    <T> z = 1 / (x * x);
    <T> series = z * ((<T>)(1. / 12) - z * ((<T>)(1. / 120) - z * ((<T>)(1. / 252) - z * ((<T>)(1. / 240)
        - z * ((<T>)(1. / 132) - z * ((<T>)(691. / 32760) - z / 12))))));
    return below + (shift + (<LOG>(x) - (<T>)0.5 / x - series));
}
""",
    # Abramowitz and Stegun 6.4.6, 6.4.7, 6.4.12.
    ("trigamma", "any"): """\
<HEAD> <NAME>(<T> x)
{
    <T> below = 0, sign = 1;
    if (x <= 0) {
        <T> fraction = <FMOD>(x, (<T>)1);
        if (fraction == 0 || x == -INFINITY)
            return INFINITY;
        <T> ratio = (<T>)3.14159265358979323846 / <SIN>((<T>)3.14159265358979323846 * fraction);
        below = ratio * ratio;
        sign = -1;
        x = 1 - x;
    }
    if (x == INFINITY || x != x)
        return x == INFINITY ? 0 : x;
    <T> shift = 0;
    while (x < 12) {
        shift += 1 / (x * x);
        x += 1;
    }
    <T> z = 1 / (x * x);
    <T> series = z * ((<T>)(1. / 6) - z * ((<T>)(1. / 30) - z * ((<T>)(1. / 42) - z * ((<T>)(1. / 30)
        - z * ((<T>)(5. / 66) - z * ((<T>)(691. / 2730) - z * (<T>)(7. / 6)))))));
    return below + sign * (shift + (1 + (<T>)0.5 / x + series) / x);
}
""",
}
"""By operation and family of dtypes ("float", "int", "uint"; "any" for families without an entry)."""
