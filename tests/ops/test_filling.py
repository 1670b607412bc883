"""Python numbers that are written into tensors whose dtype may not hold them, and tensors without values."""

import numpy as np
import pytest

import tenkey as tk

NAN, INF = float("nan"), float("inf")


def _assigned(index, dtype, value, device):
    x = tk.zeros(2, dtype=dtype, device=device)
    x[index] = value
    return x


WAYS = {
    "fill_": lambda dtype, value, device: tk.zeros(2, dtype=dtype, device=device).fill_(value),
    "copy_": lambda dtype, value, device: tk.zeros(2, dtype=dtype, device=device).copy_(value),
    "full": lambda dtype, value, device: tk.full((2,), value, dtype=dtype, device=device),
    "full_like": lambda dtype, value, device: tk.full_like(tk.zeros(2, dtype=dtype, device=device), value),
    "x[:]": lambda dtype, value, device: _assigned(slice(None), dtype, value, device),
    "x[...]": lambda dtype, value, device: _assigned(..., dtype, value, device),
    "x[array]": lambda dtype, value, device: _assigned(tk.tensor([0, 1], device=device), dtype, value, device),
    "x[mask]": lambda dtype, value, device: _assigned(tk.tensor([True, True], device=device), dtype, value, device),
}  # fmt: skip


@pytest.mark.parametrize(
    ("way", "device"),
    [(way, device) for way in WAYS for device in ("cpu", "meta") if way != "x[mask]" or device == "cpu"],
)
def test_numbers_that_integers_cannot_hold_are_refused(way, device):
    """NumPy's ``fill`` and PyTorch's ``fill_`` raise for the same numbers."""
    make = WAYS[way]
    for value in (NAN, INF, -INF):
        for given in (value, np.float64(value)):
            with pytest.raises(ValueError, match=r"nan|inf"):
                make(tk.int64, given, device)
    for dtype, value in (
        (tk.int64, 1e30), (tk.int64, 2.0**63), (tk.int64, -(2.0**64)), (tk.int64, 2**63), (tk.uint8, 256.0),
        (tk.uint8, 300), (tk.uint8, -1.0), (tk.uint8, -1), (tk.int8, 128.5), (tk.uint64, 2.0**64),
    ):  # fmt: skip
        with pytest.raises((ValueError, OverflowError)):
            np.zeros(2, dtype).fill(int(value))
        with pytest.raises(tk.dispatch.errors.OutOfRangeError, match=rf"\[.*{dtype}"):
            make(dtype, value, device)


@pytest.mark.parametrize("way", WAYS)
def test_other_numbers_are_converted_as_by_numpy(way):
    for dtype in (tk.bool, tk.uint8, tk.int8, tk.int64, tk.uint64, tk.float32, tk.complex64):
        for value in (0.0, 1, 2.5, True, 127.9, -0.5, 100, NAN, INF, -INF, 1e30, 1e300):
            if dtype.kind in "iu" and not abs(value) < 128:
                continue
            want = np.zeros(2, dtype)
            with np.errstate(all="ignore"):
                want.fill(value)
            np.testing.assert_array_equal(WAYS[way](dtype, value, "cpu").numpy(), want, f"{value} in {dtype}")


def test_the_range_of_a_sequence_is_checked():
    for end in (NAN, INF, -INF):
        with pytest.raises(ValueError, match=r"\[linspace\].*must be finite for the dtype int64"):
            tk.linspace(0, end, 3, dtype=tk.int64)
    for first, last, dtype in ((0, 1e30, tk.int64), (0, 256, tk.uint8), (-0.5, 3, tk.uint8), (300, 0, tk.uint8)):
        with pytest.raises(OverflowError, match=r"\[linspace\] the value"):
            tk.linspace(first, last, 4, dtype=dtype)
    for options in ({"stop": 256, "num": 256, "endpoint": False}, {"stop": 300, "num": 1}, {"stop": 255, "num": 256}):
        want = np.linspace(0, **options, dtype=np.uint8)
        np.testing.assert_array_equal(tk.linspace(0, **options, dtype=tk.uint8).numpy(), want)
    assert tk.linspace(0, 300, 0, dtype=tk.uint8).shape == (0,)


@pytest.mark.parametrize("value", [1e30, 256.0, -1.0, 256, -1])
def test_padding_is_checked(value):
    with pytest.raises(
        ValueError, match=rf"\[pad\] the value {value!r} cannot stand in a tensor of uint8".replace("+", r"\+")
    ):
        tk.pad(tk.zeros(2, dtype=tk.uint8), 1, constant_values=value)


# ---- tensors without values


@pytest.mark.parametrize("call", [
    lambda x, out: tk.ops.tk.add.out(x, x, out=out), lambda x, out: tk.ops.tk.add.out(x, 2.0, out=out),
    lambda x, out: tk.ops.tk.exp.out(x, out=out),
    lambda x, out: tk.ops.tk.sum.out(x, axis=0, keepdims=True, out=out[:1]),
])  # fmt: skip
def test_out_is_on_the_device_of_the_result(call):
    on_cpu, on_meta = tk.ones(3), tk.ones(3, device="meta")
    for x, out in ((on_cpu, on_meta), (on_meta, on_cpu)):
        with pytest.raises(tk.dispatch.DeviceMismatchError, match=rf"out is on {out.device}.*{x.device}"):
            call(x, out)
    assert on_cpu.tolist() == [1, 1, 1]
    assert on_cpu._version == on_meta._version == 0
    assert call(on_meta, tk.empty(3, device="meta")).device == tk.device("meta")


@pytest.mark.parametrize("write", [
    lambda x, m: x.copy_(m), lambda x, m: x.fill_(m[0]), lambda x, m: x.__setitem__(0, m[0]),
    lambda x, m: x.__setitem__(slice(0, 2), m[:2]), lambda x, m: x[1:].copy_(m[1:]),
], ids=["copy_", "fill_", "item", "slice", "view"])  # fmt: skip
def test_nothing_is_written_from_a_tensor_without_values(write):
    x, m = tk.ones(3), tk.zeros(3, device="meta")
    with pytest.raises(RuntimeError, match=r"a tensor on 'meta' has no values to write to 'cpu'"):
        write(x, m)
    assert x.tolist() == [1, 1, 1]
    write(m, x)
    assert m.shape == (3,)
