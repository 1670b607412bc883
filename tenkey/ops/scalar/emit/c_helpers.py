"""C functions for operations that C has no operator or function for; ``to_c`` puts them before its own function.

Words in angle brackets are replaced: ``<T>`` by the compute type, ``<U>`` by an unsigned type of 32 or 64 bits that
holds it, ``<FMOD>`` and similar words by names of functions of the mathematical library.
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
    # Recurrence, asymptotic series and reflection as in `reference`: Abramowitz and Stegun 6.3.5, 6.3.7, 6.3.18.
    ("digamma", "any"): """\
<HEAD> <NAME>(<T> x)
{
    <T> below = 0;
    if (x == 0)
        return <COPYSIGN>((<T>)INFINITY, -x);
    if (x < 0) {
        <T> fraction = <FMOD>(x, 1);
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
        <T> fraction = <FMOD>(x, 1);
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
