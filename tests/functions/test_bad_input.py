"""What users pass by mistake, or at the edge: an error that helps, or the right answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenkey as tk


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("name", ["equal", "not_equal", "less", "less_equal", "greater", "greater_equal"])
@pytest.mark.parametrize("value", [2**70, -(2**70), 1000, -1000, 127, -128])
def test_comparison_with_an_int_out_of_range(name: str, value: int, device: str) -> None:
    array = np.array([-128, 0, 127], np.int8)
    x = tk.asarray(array, device=device)
    got, reflected = getattr(tk, name)(x, value), getattr(tk, name)(value, x)
    assert got.dtype == tk.bool
    assert got.shape == reflected.shape == (3,)
    if device == "cpu":
        np.testing.assert_array_equal(got.numpy(), getattr(np, name)(array, value))
        np.testing.assert_array_equal(reflected.numpy(), getattr(np, name)(value, array))


def test_arithmetic_with_a_long_int() -> None:
    assert (tk.asarray([1.0]) + 2**70).tolist() == [float(np.float32(2.0**70))]
    with pytest.raises(OverflowError, match=r"\[tk::add\] the Python int 1180591620717411303424 does not fit"):
        tk.asarray([1]) + 2**70


def _cyclic() -> list[Any]:
    made: list[Any] = [1.0]
    made[0] = made
    return made


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: tk.tensor(_cyclic()), ValueError, r"\[tensor\] the nested sequence is deeper than 64 levels"),
        (lambda: tk.asarray(_cyclic()), ValueError, r"\[asarray\] the nested sequence is deeper than 64 levels"),
        (lambda: tk.tensor(10**30), OverflowError, r"\[tensor\] the Python int 10+ fits into no integer dtype"),
        (lambda: tk.tensor(["a"]), TypeError, r"\[tensor\] cannot make a tensor of \['a'\]"),
        (lambda: tk.zeros(2, dtype="float31"), TypeError, r"\[tk::zeros\] .* got 'float31': tensors hold bool"),
        (lambda: tk.linspace(0, 1, -1), ValueError, r"\[linspace\] num is .* got -1"),
        (lambda: tk.eye(2, -1), ValueError, r"\[eye\] n_rows and n_cols must be at least 0, got 2 and -1"),
        (lambda: f"{tk.ones(2):.3f}", TypeError, r"\[format\] the format '.3f' is for a number"),
        (lambda: tk.ones(()).to("cudo"), ValueError, r"\[to\] unknown device 'cudo'"),
        (lambda: tk.ones(3)[0, 0], IndexError, r"\[index\] got 2 indices .*: give at most one for each dimension"),
    ],
)
def test_error(call: Callable[[], object], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


def test_format_of_one_number() -> None:
    assert f"{tk.tensor(1.25):.1f} {tk.tensor(2)}" == f"1.2 {tk.tensor(2)!r}"


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_bits_of_what_has_none(dtype: str) -> None:
    """They are not those of logic, which once were computed instead."""
    x = tk.ones(2, dtype=dtype)
    for call in (lambda: x & x, lambda: x | x, lambda: x ^ x, lambda: ~x, lambda: tk.ones(2, dtype=tk.bool) & x):
        with pytest.raises(TypeError, match=r"\[tk::bitwise_\w+\] is not defined for dtype .*: it takes integers"):
            call()


def test_bits_of_integers_are_no_logic() -> None:
    x = tk.asarray([6, 1])
    assert [(x & 3).tolist(), (x | 3).tolist(), (x ^ 3).tolist(), (~x).tolist()] == [[2, 1], [7, 3], [5, 2], [-7, -2]]
    assert [(x << 1).tolist(), (x >> 1).tolist(), (1 << x).tolist()] == [[12, 2], [3, 0], [64, 2]]
    with pytest.raises(TypeError, match="it takes integers"):
        tk.asarray([True]) << tk.asarray([True])


def test_integers_to_a_negative_power() -> None:
    x = tk.asarray([1, 2])
    calls: list[Any] = [
        lambda: x**-1, lambda: x ** tk.asarray([1, -1]), lambda: 2 ** tk.asarray([-1]), lambda: x.pow_(-1),
        lambda: tk.arange(200_000) ** -1,
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(ValueError, match=r"\[pow\] integers to the power of -1 are fractions"):
            call()
    assert x.tolist() == [1, 2]
    assert (x**-1.0).tolist() == [1.0, 0.5]
    assert (x**2).tolist() == [1, 4]


def test_complex_numbers_are_no_floats() -> None:
    for kind in (float, int):
        with pytest.raises(TypeError, match=rf"\[{kind.__name__}\] the element .* is complex: .*tk.real"):
            kind(tk.asarray(1j))
    assert complex(tk.asarray(1j)) == 1j


def test_joined_tensors_are_contiguous() -> None:
    for x in (tk.broadcast_to(tk.ones(1), (3, 2)), tk.ones((2, 3)).T, tk.ones((3, 4))[:, ::2]):
        assert tk.concat([x, x]).strides == (2, 1)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda: tk.full((10**12, 10**12), 1.0),
            r"\[full\] a tensor of shape \(1000000000000, .* is larger",
        ),
        (lambda: tk.full((1,) * 65, 1), r"\[full\] would give 65 dimensions: a tensor has at most 64"),
        (lambda: tk.eye(2**40), r"\[eye\] a tensor of shape .* is larger than an address space"),
        (lambda: tk.linspace(0, 1, 2**62), r"\[linspace\] a tensor of shape \(4611686018427387904,\) is larger"),
        (lambda: tk.zeros((2**62, 2**62)), r"\[zeros\] a tensor of shape .* is larger than an address space"),
        (lambda: tk.ones(2**61, device="meta"), r"\[ones\] a tensor of shape .* is larger than an address space"),
        (lambda: tk.empty(2**70, dtype=tk.int8), r"\[empty\] a tensor of shape .* is larger than an address space"),
        (lambda: tk.zeros((1,) * 65), r"\[zeros\] would give 65 dimensions: a tensor has at most 64"),
        (lambda: tk.arange(2**62), r"\[arange\] a tensor of shape .* is larger than an address space"),
        (lambda: tk.arange(0, 2**61, dtype=tk.float32), r"\[arange\] a tensor of shape .* is larger"),
        (lambda: tk.arange(0.0, 1e30), r"\[arange\] a tensor of shape .* is larger than an address space"),
        (lambda: tk.logspace(0, 1, 2**61), r"\[logspace\] a tensor of shape .* is larger than an address space"),
        (lambda: tk.geomspace(1, 2, 2**61), r"\[geomspace\] a tensor of shape .* is larger than an address space"),
        (lambda: tk.vander(tk.ones(3), 2**60), r"\[vander\] a tensor of shape .* is larger than an address space"),
        (lambda: tk.tile(tk.ones(3), 2**62), r"\[tile\] a tensor of shape \(13835058055282163712,\) is larger"),
        (lambda: tk.tile(tk.ones(3), (1,) * 70), r"\[tile\] would give 70 dimensions"),
        (lambda: tk.reshape(tk.ones(3), (3,) + (1,) * 70), r"\[reshape\] would give 71 dimensions"),
        (lambda: tk.broadcast_to(tk.ones(3), (1,) * 70 + (3,)), r"\[broadcast_to\] would give 71 dimensions"),
        (lambda: tk.expand_dims(tk.ones(3), tuple(range(70))), r"\[expand_dims\] would give 71 dimensions"),
        (lambda: tk.ones((1,) * 64)[None], r"\[index\] would give 65 dimensions"),
        (lambda: tk.einsum("i,i", tk.ones(3), tk.ones(3), optimize="foo"), r"\[einsum\] got optimize='foo'"),
        (lambda: tk.einsum("i,i", tk.ones(3), tk.ones(3), optimize=3), r"\[einsum\] got optimize=3"),
        (lambda: tk.histogram(tk.ones(3), range=(1,)), r"\[histogram\] got range=\(1.0,\): it must be a pair"),
        (lambda: tk.histogram_bin_edges(tk.ones(3), range=(1, 2, 3)), r"\[histogram_bin_edges\] got range="),
    ],
)
def test_shapes_that_no_tensor_has_and_options_that_mean_nothing(call: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        call()


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: tk.zeros((2**40, 2**16)), "zeros"),
        (lambda: tk.ones((2**40, 2**16)), "ones"),
        (lambda: tk.arange(2**58), "arange"),
        (lambda: tk.vander(tk.ones(1), 2**58), "cumulative_prod"),
    ],
)
def test_more_memory_than_there_is(call: Any, name: str) -> None:
    with pytest.raises(
        MemoryError, match=rf"^\[{name}\] needs more memory than available, .* bytes for shape .*: give a"
    ):
        call()


def test_options_that_mean_something() -> None:
    x = tk.ones(3)
    for optimize in (True, False, None, "greedy", "optimal", "auto", ["einsum_path", (0, 1)], ("greedy", 1000)):
        assert tk.einsum("i,i", x, x, optimize=optimize).item() == 3
    with pytest.raises(TypeError, match=r"the argument 'range' must be a sequence of float, got 1"):
        tk.histogram(x, range=1)
    wide = tk.tile(tk.ones((2, 3)), (2,) + (1,) * 39 + (3,))  # more than half of the dimensions that there may be
    assert (wide.ndim, wide.size, wide.shape[-2:]) == (41, 36, (2, 9))
