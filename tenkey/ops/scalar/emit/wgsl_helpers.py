"""WGSL functions for operations that WGSL lacks, or has without the accuracy that tenkey needs.

``<NAME>`` is replaced by the name of the function, ``<T>`` by the compute type, ``<call:key>`` by the name of another
helper. The coefficients are those of least-squares fits at Chebyshev nodes, with relative errors below 4e-9.
"""

from __future__ import annotations

from typing import Final

__all__ = ["HELPERS"]

HELPERS: Final[dict[tuple[str, str], str]] = {
    ("bits", "any"): """\
fn <NAME>(x: u32) -> f32 {
    return bitcast<f32>(x);
}
""",
    # exp(r) * 2**n for small r; the power is applied twice because 2**n itself may be out of range.
    ("scaled", "any"): """\
fn <NAME>(r: f32, n: f32) -> f32 {
    let p = 1f + r * (1f + r * (0.5f + r * (0.1666666502f + r * (0.04166622631f + r * (0.008333578291f
        + r * (0.001394813404f + r * 0.0001976691855f))))));
    let k = i32(n);
    let half = k / 2;
    return (p * bitcast<f32>(u32(half + 127) << 23u)) * bitcast<f32>(u32(k - half + 127) << 23u);
}
""",
    ("exp", "any"): """\
fn <NAME>(x: f32) -> f32 {
    if ((bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u) { return x; }
    if (x > 89f) { return <call:bits>(0x7f800000u); }
    if (x < -104f) { return 0f; }
    let n = round(x * 1.4426950408889634f);
    return <call:scaled>((x - n * 0.693359375f) + n * 0.00021219444005469057f, n);
}
""",
    ("exp2", "any"): """\
fn <NAME>(x: f32) -> f32 {
    if ((bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u) { return x; }
    if (x > 129f) { return <call:bits>(0x7f800000u); }
    if (x < -151f) { return 0f; }
    let n = round(x);
    return <call:scaled>((x - n) * 0.6931471805599453f, n);
}
""",
    # The exponent, and the logarithm of the rest, which is between sqrt(1/2) and sqrt(2).
    ("split_log", "any"): """\
fn <NAME>(x: f32) -> vec2<f32> {
    var bits = bitcast<u32>(x);
    var e = -127;
    if (bits < 0x00800000u) {
        bits = bitcast<u32>(x * 8388608f);
        e = -150;
    }
    e += i32(bits >> 23u);
    var m = bitcast<f32>((bits & 0x007fffffu) | 0x3f800000u);
    if (m > 1.41421356f) {
        m = m * 0.5f;
        e += 1;
    }
    let f = m - 1f;
    let s = f / (2f + f);
    let z = s * s;
    return vec2<f32>(f32(e), 2f * s + s * z * (0.6666666525f + z * (0.4000038499f + z * (0.2853503268f
        + z * 0.2361668829f))));
}
""",
    ("log", "any"): """\
fn <NAME>(x: f32) -> f32 {
    let bits = bitcast<u32>(x);
    if ((bits & 0x7fffffffu) == 0u) { return <call:bits>(0xff800000u); }
    if (bits > 0x80000000u) { return <call:bits>(0x7fc00000u); }
    if (bits >= 0x7f800000u) { return x; }
    let part = <call:split_log>(x);
    return part.x * 0.693359375f + (part.y - part.x * 0.00021219444005469057f);
}
""",
    ("log2", "any"): """\
fn <NAME>(x: f32) -> f32 {
    let bits = bitcast<u32>(x);
    if ((bits & 0x7fffffffu) == 0u) { return <call:bits>(0xff800000u); }
    if (bits > 0x80000000u) { return <call:bits>(0x7fc00000u); }
    if (bits >= 0x7f800000u) { return x; }
    let part = <call:split_log>(x);
    return part.x + part.y * 1.4426950408889634f;
}
""",
    ("high", "any"): """\
fn <NAME>(x: u32, y: u32) -> u32 {
    let low = (x & 0xffffu) * (y & 0xffffu);
    let middle = (x >> 16u) * (y & 0xffffu) + (low >> 16u);
    let other = (x & 0xffffu) * (y >> 16u) + (middle & 0xffffu);
    return (x >> 16u) * (y >> 16u) + (middle >> 16u) + (other >> 16u);
}
""",
    # Payne and Hanek: the mantissa times 96 bits of 2 / pi, those before which stand for whole turns. The result is
    # the angle beyond the nearest quarter turn, and the number of that quarter.
    ("quarter", "any"): """\
fn <NAME>(x: f32) -> vec2<f32> {
    let size = bitcast<u32>(x) & 0x7fffffffu;
    if (size < 0x3f490fdbu) { return vec2<f32>(x, 0f); }
    if (size >= 0x7f800000u) { return vec2<f32>(<call:bits>(0x7fc00000u), 0f); }
    var digits = array<u32, 9>(0u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u,
                               0xfe5163abu, 0xdebbc561u);
    let mantissa = (size & 0x007fffffu) | 0x00800000u;
    let start = (size >> 23u) - 120u;
    let i = start >> 5u;
    let shift = start & 31u;
    var window = vec3<u32>(digits[i], digits[i + 1u], digits[i + 2u]);
    if (shift != 0u) {
        window = (window << vec3<u32>(shift)) | (vec3<u32>(digits[i + 1u], digits[i + 2u], digits[i + 3u])
            >> vec3<u32>(32u - shift));
    }
    let carried = <call:high>(mantissa, window.z);
    var low = mantissa * window.y;
    var high = mantissa * window.x + <call:high>(mantissa, window.y);
    low += carried;
    if (low < carried) { high += 1u; }
    let quarter = (high + 0x20000000u) >> 30u;
    high -= quarter << 30u;
    var sign = 1f;
    if (high >= 0x80000000u) {
        low = ~low + 1u;
        high = ~high;
        if (low == 0u) { high += 1u; }
        sign = -1f;
    }
    let angle = sign * (f32(high) * 1.4629180792671596e-09f + f32(low) * 3.406121583308711e-19f);
    if (x < 0f) { return vec2<f32>(-angle, f32((4u - (quarter & 3u)) & 3u)); }
    return vec2<f32>(angle, f32(quarter & 3u));
}
""",
    ("wave", "any"): """\
fn <NAME>(r: f32, quarter: u32) -> f32 {
    let z = r * r;
    var value = r + r * z * (-0.1666666663f + z * (0.008333328688f + z * (-0.0001983917788f + z * 2.717148991e-06f)));
    if ((quarter & 1u) == 1u) {
        value = 1f - 0.5f * z + z * z * (0.04166661321f + z * (-0.001388652853f + z * 2.437263011e-05f));
    }
    if ((quarter & 2u) == 2u) { value = -value; }
    return value;
}
""",
    ("sin", "any"): """\
fn <NAME>(x: f32) -> f32 {
    let part = <call:quarter>(x);
    return <call:wave>(part.x, u32(part.y));
}
""",
    ("cos", "any"): """\
fn <NAME>(x: f32) -> f32 {
    let part = <call:quarter>(x);
    return <call:wave>(part.x, u32(part.y) + 1u);
}
""",
    ("atan", "any"): """\
fn <NAME>(x: f32) -> f32 {
    let bits = bitcast<u32>(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u) { return x; }
    var a = abs(x);
    let far = a > 1f;
    if ((bits & 0x7fffffffu) == 0x7f800000u) { a = 0f; } else if (far) { a = 1f / a; }
    let turned = a > 0.4142135624f;
    if (turned) { a = (a - 1f) / (a + 1f); }
    let z = a * a;
    var angle = a + a * z * (-0.3333330701f + z * (0.1999818824f + z * (-0.1423961424f + z * (0.1057035239f
        - z * 0.06027482102f))));
    if (turned) { angle = 0.7853981633974483f + angle; }
    if (far) { angle = 1.5707963267948966f - angle; }
    return bitcast<f32>(bitcast<u32>(angle) | (bits & 0x80000000u));
}
""",
    ("pow", "float32"): """\
fn <NAME>(x: f32, y: f32) -> f32 {
    let size = bitcast<u32>(x) & 0x7fffffffu;
    let exponent = bitcast<u32>(y) & 0x7fffffffu;
    if (exponent == 0u || bitcast<u32>(x) == 0x3f800000u) { return 1f; }
    if (size > 0x7f800000u || exponent > 0x7f800000u) { return <call:bits>(0x7fc00000u); }
    if (exponent == 0x7f800000u) {
        if (size == 0x3f800000u) { return 1f; }
        return select(0f, <call:bits>(0x7f800000u), (size > 0x3f800000u) == (y > 0f));
    }
    let whole = floor(y) == y;
    let odd = whole && floor(y * 0.5f) != y * 0.5f;
    let sign = select(0u, 0x80000000u, odd && bitcast<u32>(x) >= 0x80000000u);
    if (size == 0u || size == 0x7f800000u) {
        return bitcast<f32>(select(0u, 0x7f800000u, (size == 0u) == (y < 0f)) | sign);
    }
    if (x < 0f && !whole) { return <call:bits>(0x7fc00000u); }
    // the product with the exponent is split, so that the fraction of the power of two does not lose its digits
    let part = <call:split_log>(abs(x));
    let rest = part.y * 1.4426950408889634f;
    let coarse = bitcast<f32>(bitcast<u32>(y) & 0xfffff000u);
    let n = round(clamp(y * (part.x + rest), -300f, 300f));
    if (n > 290f) { return bitcast<f32>(0x7f800000u | sign); }
    if (n < -290f) { return bitcast<f32>(sign); }
    let fraction = (coarse * part.x - n) + ((y - coarse) * part.x + y * rest);
    let value = <call:scaled>(clamp(fraction, -1f, 1f) * 0.6931471805599453f, clamp(n, -152f, 129f));
    return bitcast<f32>(bitcast<u32>(value) | sign);
}
""",
    ("copysign", "any"): """\
fn <NAME>(x: f32, y: f32) -> f32 {
    return bitcast<f32>((bitcast<u32>(x) & 0x7fffffffu) | (bitcast<u32>(y) & 0x80000000u));
}
""",
    ("nextafter", "any"): """\
fn <NAME>(x: f32, y: f32) -> f32 {
    let sizes = vec2<u32>(bitcast<u32>(x), bitcast<u32>(y)) & vec2<u32>(0x7fffffffu);
    if (sizes.x > 0x7f800000u || sizes.y > 0x7f800000u) { return <call:bits>(0x7fc00000u); }
    if (x == y) { return y; }
    if (sizes.x == 0u) { return bitcast<f32>((bitcast<u32>(y) & 0x80000000u) | 1u); }
    return bitcast<f32>(select(bitcast<u32>(x) - 1u, bitcast<u32>(x) + 1u, (x < y) == (x > 0f)));
}
""",
    # Long division of the mantissas, which is exact for every quotient.
    ("fmod", "any"): """\
fn <NAME>(x: f32, y: f32) -> f32 {
    let a = bitcast<u32>(x) & 0x7fffffffu;
    let b = bitcast<u32>(y) & 0x7fffffffu;
    if (a >= 0x7f800000u || b > 0x7f800000u || b == 0u) { return <call:bits>(0x7fc00000u); }
    if (a < b) { return x; }
    var e = max(a >> 23u, 1u);
    let last = max(b >> 23u, 1u);
    var rest = select(a & 0x007fffffu, (a & 0x007fffffu) | 0x00800000u, a >= 0x00800000u);
    let divisor = select(b & 0x007fffffu, (b & 0x007fffffu) | 0x00800000u, b >= 0x00800000u);
    loop {
        if (rest >= divisor) { rest -= divisor; }
        if (e == last) { break; }
        rest = rest << 1u;
        e -= 1u;
    }
    let sign = bitcast<u32>(x) & 0x80000000u;
    if (rest == 0u) { return bitcast<f32>(sign); }
    let shift = min(countLeadingZeros(rest) - 8u, e - 1u);
    rest = rest << shift;
    e -= shift;
    return bitcast<f32>(sign | select(rest, (rest & 0x007fffffu) | (e << 23u), rest >= 0x00800000u));
}
""",
    ("floor_divide", "float32"): """\
fn <NAME>(x: f32, y: f32) -> f32 {
    if (y == 0f) { return x / y; }
    let rest = <call:fmod>(x, y);
    var quotient = (x - rest) / y;
    if (rest != 0f && (y < 0f) != (rest < 0f)) { quotient -= 1f; }
    if (quotient == 0f) { return bitcast<f32>((bitcast<u32>(x) ^ bitcast<u32>(y)) & 0x80000000u); }
    let whole = floor(quotient);
    return select(whole, whole + 1f, quotient - whole > 0.5f);
}
""",
    ("remainder", "float32"): """\
fn <NAME>(x: f32, y: f32) -> f32 {
    let rest = <call:fmod>(x, y);
    if (rest == 0f) { return bitcast<f32>(bitcast<u32>(y) & 0x80000000u); }
    return select(rest, rest + y, (y < 0f) != (rest < 0f) && (bitcast<u32>(rest) & 0x7fffffffu) < 0x7f800000u);
}
""",
    # Without the operator %, which GLSL, to which WGSL may be translated, does not define for negative numbers.
    ("floor_divide", "int32"): """\
fn <NAME>(x: i32, y: i32) -> i32 {
    if (y == 0i) { return 0i; }
    if (y == -1i) { return 0i - x; }
    let quotient = x / y;
    return select(quotient, quotient - 1i, quotient * y != x && (x < 0i) != (y < 0i));
}
""",
    ("remainder", "int32"): """\
fn <NAME>(x: i32, y: i32) -> i32 {
    if (y == 0i || y == -1i) { return 0i; }
    let rest = x - (x / y) * y;
    return select(rest, rest + y, rest != 0i && (rest < 0i) != (y < 0i));
}
""",
    ("floor_divide", "uint32"): """\
fn <NAME>(x: u32, y: u32) -> u32 {
    if (y == 0u) { return 0u; }
    return x / y;
}
""",
    ("remainder", "uint32"): """\
fn <NAME>(x: u32, y: u32) -> u32 {
    if (y == 0u) { return 0u; }
    return x % y;
}
""",
    ("bitwise_left_shift", "any"): """\
fn <NAME>(x: <T>, y: <T>) -> <T> {
    if (u32(y) >= 32u) { return <T>(0); }
    return x << u32(y);
}
""",
    ("bitwise_right_shift", "any"): """\
fn <NAME>(x: <T>, y: <T>) -> <T> {
    if (u32(y) < 32u) { return x >> u32(y); }
    return select(<T>(0), <T>(0) - <T>(1), x < <T>(0));
}
""",
    ("pow", "any"): """\
fn <NAME>(x: <T>, y: <T>) -> <T> {
    var result = <T>(1);
    var base = x;
    var n = u32(y);
    while (n != 0u) {
        if ((n & 1u) == 1u) { result = result * base; }
        base = base * base;
        n = n >> 1u;
    }
    return result;
}
""",
    # Recurrence, asymptotic series and reflection as in `reference`: Abramowitz and Stegun 6.3.5, 6.3.7, 6.3.18.
    ("digamma", "any"): """\
fn <NAME>(given: f32) -> f32 {
    var x = given;
    var below = 0f;
    let sign = bitcast<u32>(x) & 0x80000000u;
    if (x == 0f) { return bitcast<f32>(0x7f800000u | (sign ^ 0x80000000u)); }
    if (x < 0f) {
        let turn = x - trunc(x);
        if (turn == 0f || bitcast<u32>(x) == 0xff800000u) { return <call:bits>(0x7fc00000u); }
        below = -3.14159265358979f * <call:cos>(3.14159265358979f * turn) / <call:sin>(3.14159265358979f * turn);
        x = 1f - x;
    }
    if (bitcast<u32>(x) >= 0x7f800000u) { return x; }
    var shift = 0f;
    while (x < 10f) {
        shift -= 1f / x;
        x += 1f;
    }
    let z = 1f / (x * x);
    let series = z * (0.0833333333f - z * (0.00833333333f - z * 0.00396825397f));
    return below + (shift + (<call:log>(x) - 0.5f / x - series));
}
""",
    # Abramowitz and Stegun 6.4.6, 6.4.7, 6.4.12.
    ("trigamma", "any"): """\
fn <NAME>(given: f32) -> f32 {
    var x = given;
    var below = 0f;
    var sign = 1f;
    if (x <= 0f) {
        let turn = x - trunc(x);
        if (turn == 0f || bitcast<u32>(x) == 0xff800000u) { return <call:bits>(0x7f800000u); }
        let ratio = 3.14159265358979f / <call:sin>(3.14159265358979f * turn);
        below = ratio * ratio;
        sign = -1f;
        x = 1f - x;
    }
    if ((bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u) { return x; }
    if (bitcast<u32>(x) == 0x7f800000u) { return 0f; }
    var shift = 0f;
    while (x < 10f) {
        shift += 1f / (x * x);
        x += 1f;
    }
    let z = 1f / (x * x);
    let series = z * (0.166666667f - z * (0.0333333333f - z * 0.0238095238f));
    return below + sign * (shift + (1f + 0.5f / x + series) / x);
}
""",
}
"""By operation and dtype ("any" for dtypes without an entry)."""
