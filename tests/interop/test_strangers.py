"""Calls that users of NumPy and PyTorch write, and bad ones: results as NumPy has them, or errors of our own."""

from __future__ import annotations

import numpy as np
import pytest

import tenkey as tk

RNG = np.random.default_rng(0)
A, B, V = RNG.standard_normal((3, 4)), RNG.standard_normal((3, 4)), RNG.standard_normal(7)


def tensors(value):
    if isinstance(value, list):
        return [tensors(v) for v in value]
    return tk.asarray(value.copy()) if isinstance(value, np.ndarray) else value


@pytest.mark.parametrize(
    "blocks",
    [
        [[A, B], [B, A]],
        [V, V],
        [[A, np.zeros((3, 1))], [np.ones((1, 5))]],
        [1.0, V],
        [[V], [V]],
        [[[A, A]], [[B, B]]],
        [A, np.ones((1, 3, 4))],
        V,
    ],
)
def test_block(blocks):
    np.testing.assert_allclose(tk.block(tensors(blocks)).numpy(), np.block(blocks), strict=True)


@pytest.mark.parametrize(
    ("blocks", "kind", "words"),
    [
        ([], ValueError, r"\[block\] a list of blocks is empty"),
        ([[A], []], ValueError, r"\[block\] a list of blocks is empty"),
        ([[A], A], ValueError, r"\[block\] the lists nest 2 deep in one place and 1"),
        ([(A, B)], TypeError, r"\[block\] got a tuple"),
        ([[A], [A, B]], ValueError, r"\(3, 4\) and \(3, 8\)"),
    ],
)
def test_block_refuses(blocks, kind, words):
    with pytest.raises(kind, match=words):
        tk.block(tensors(blocks))


def test_block_has_gradients_and_memory_of_its_own():
    x = tk.asarray(A.copy(), dtype=tk.float64).requires_grad_()
    assert tk.autograd.gradcheck(lambda x: tk.block([[x, x * 2], [x**2, x]]), x)
    plain = tk.ones(2)
    assert not tk.shares_storage(tk.block(plain), plain)
    assert tk.block([tk.ones(2, dtype=tk.float32), 2.5]).dtype == tk.float32


def test_arrays_as_operands_leave_no_negative_strides_and_are_not_written_to():
    turned = tk.permute_dims(np.ones((2, 3))[::-1], (1, 0))
    assert min(turned.strides) > 0
    fixed = np.ones(3)
    fixed.flags.writeable = False
    view = tk.reshape(fixed, (3, 1))
    view += 1
    assert fixed.tolist() == [1.0, 1.0, 1.0]


def test_kron_with_numbers():
    np.testing.assert_allclose(tk.kron(tk.asarray(A), 2.0).numpy(), np.kron(A, 2.0))
    np.testing.assert_allclose(tk.kron(2.0, tk.asarray(V)).numpy(), np.kron(2.0, V))


def test_to_takes_a_tensor_and_copies():
    x = tk.ones(2)
    assert x.to(x) is x
    assert x.to(tk.zeros(3, dtype=tk.float64)).dtype == tk.float64
    assert not tk.shares_storage(x.to(tk.float32, copy=True), x)
    assert not tk.shares_storage(x.to("cpu", copy=True), x)


@pytest.mark.parametrize("given", [np.arange(5), [0, 1, 2, 3, 4], tk.arange(5)])
def test_random_selections_of_arrays_and_lists(given):
    assert sorted(tk.random.permutation(given).tolist()) == [0, 1, 2, 3, 4]
    assert set(tk.random.choice(given, 3, replace=False).tolist()) <= {0, 1, 2, 3, 4}


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (
            lambda path: tk.set_num_threads("two"),
            TypeError,
            r"\[set_num_threads\] the number of threads must be an int",
        ),
        (lambda path: tk.set_num_threads(2.5), TypeError, r"\[set_num_threads\]"),
        (
            lambda path: f"{tk.asarray(3.0):d}",
            ValueError,
            r"\[format\] the format 'd' does not fit a number of float32",
        ),
        (lambda path: tk.save(tk.ones(2), path / "x", metadata="text"), TypeError, r"\[save\] metadata is a dict"),
        (lambda path: tk.save(tk.ones(2), f"{path}/x\0y"), ValueError, r"\[save\] the path .* NUL"),
        (lambda path: tk.load(f"{path}/x\0y"), ValueError, r"\[load\] the path .* NUL"),
        (lambda path: tk.random.normal(2, device="nowhere"), ValueError, r"\[device\] unknown device 'nowhere'"),
    ],
)
def test_errors_are_our_own(call, kind, words, tmp_path):
    with pytest.raises(kind, match=words):
        call(tmp_path)


def _both(call, *arrays):
    """What a call of ``tk`` and the same call of NumPy give."""
    return call(tk, *[tk.asarray(a.copy()) for a in arrays]), call(np, *arrays)


W = np.cumsum(RNG.uniform(0.5, 1.5, 7))


@pytest.mark.parametrize(
    "call",
    [
        lambda xp, x, v, w: xp.quantile(v, [0.1, 0.7]),
        lambda xp, x, v, w: xp.quantile(xp.asarray(np.arange(11, dtype="float32")), [0.7], method="lower"),
        lambda xp, x, v, w: xp.percentile(x, [30, 50], axis=0),
        lambda xp, x, v, w: xp.nanquantile(x, [0.25, 0.5], axis=1),
        lambda xp, x, v, w: xp.histogram(v, bins=[-2, 0, 1, 3])[0],
        lambda xp, x, v, w: xp.digitize(v, [-1, 0, 1]),
        lambda xp, x, v, w: xp.bincount(xp.asarray([0, 1, 1]), weights=[1.0, 2.0, 3.0]),
        lambda xp, x, v, w: xp.interp(v, [-3, 0, 3], [1.0, 2.0, 5.0]),
        lambda xp, x, v, w: xp.take(v, [0, -1]),
        lambda xp, x, v, w: xp.isin(xp.asarray([0, 1, 2, 3]), [1, 3]),
        lambda xp, x, v, w: xp.average(v, weights=[1, 2, 3, 4, 5, 6, 7]),
        lambda xp, x, v, w: xp.trapezoid(v, list(W)),
        lambda xp, x, v, w: xp.polyval([1.0, 2.0], v),
        lambda xp, x, v, w: xp.convolve(v, [1.0, 2.0]),
        lambda xp, x, v, w: xp.cov(x, aweights=[1, 2, 3, 4]),
        lambda xp, x, v, w: xp.choose(xp.asarray([0, 1]), [[1, 2], [3, 4]]),
        lambda xp, x, v, w: xp.select([v > 0, v < 0], [v, 1], default=7),
        lambda xp, x, v, w: xp.select([v > 0], [v], v * 2),
        lambda xp, x, v, w: xp.pad(x, np.array([[1, 1], [2, 2]])),
    ],
)
def test_lists_in_the_place_of_tensors(call):
    got, expected = _both(call, A, V, W)
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-6)


def test_lists_widen_nothing_and_hide_no_tensor():
    x = tk.asarray([1.0, 2.0], dtype=tk.float32)
    assert tk.histogram(x, bins=[0, 1.5, 3])[1].dtype == tk.float32
    assert tk.interp(x, [0, 1], [3.0, 5.0]).dtype == tk.float32
    scale = tk.tensor(0.5, requires_grad=True)
    assert tk.quantile(x, [scale]).requires_grad
    with pytest.raises(TypeError, match=r"must be a Tensor, got \['a'\]"):
        tk.quantile(x, ["a"])
    assert tk.quantile([1.0, 2.0], 0.5).item() == 1.5
    assert tk.add(x, [1, 2]).dtype == tk.float32


@pytest.mark.parametrize(
    "call",
    [
        lambda xp, x, v, w: xp.pad(x, 1, "edge"),
        lambda xp, x, v, w: xp.convolve(v, w, "same"),
        lambda xp, x, v, w: xp.correlate(v, w, "full"),
        lambda xp, x, v, w: xp.interp(v, w, w, -5.0, 7.0),
        lambda xp, x, v, w: xp.trapezoid(v, None, 0.5),
        lambda xp, x, v, w: xp.allclose(x, x, 1e-5, 1e-8),
        lambda xp, x, v, w: xp.isclose(x, x, 1e-5, 1e-8),
        lambda xp, x, v, w: xp.partition(x, 1, 0)[1],
        lambda xp, x, v, w: xp.split(x, 2, 1)[1],
        lambda xp, x, v, w: xp.array_split(x, 3, 1)[0],
        lambda xp, x, v, w: xp.gradient(v, w),
        lambda xp, x, v, w: xp.gradient(v, 2.0),
        lambda xp, x, v, w: xp.stack(xp.gradient(x, 0.5, 2.0)) if xp is np else xp.gradient(x, 0.5, 2.0),
        lambda xp, x, v, w: xp.gradient(x, [1, 2, 4.0], axis=0),
        lambda xp, x, v, w: np.stack(np.gradient(x, 2.0, W[:4])) if xp is np else xp.gradient(x, 2.0, W[:4]),
    ],
)
def test_positional_arguments_as_numpy_has_them(call):
    got, expected = _both(call, A, V, W)
    np.testing.assert_allclose(np.asarray(got), expected)


def test_gradient_over_places_has_gradients_by_both():
    v, w = (tk.asarray(a.copy()).requires_grad_() for a in (V, W))
    assert tk.autograd.gradcheck(tk.gradient, (v, w))


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda x, v: tk.gradient(v, v[:3]), ValueError, r"\[gradient\] places of shape \(3,\)"),
        (lambda x, v: tk.gradient(x, v), ValueError, r"\[gradient\] got 1 spacings for 2 axes"),
        (lambda x, v: tk.gradient(x, 1.0, 2.0, 3.0), ValueError, r"\[gradient\] spacing has 3 entries for 2 axes"),
        (lambda x, v: tk.gradient(v, 2.0, spacing=3.0), TypeError, r"\[gradient\] got spacing= and positional"),
        (lambda x, v: tk.gradient("text"), TypeError, r"\[gradient\] takes a Tensor, got str"),
        (lambda x, v: tk.piecewise(V, [None], [1, 2]), TypeError, r"\[piecewise\] takes a Tensor, got NoneType"),
        (lambda x, v: v.flip(0, axis=0), TypeError, r"\[flip\] got the axes"),
        (lambda x, v: tk.asarray(1.0).nonzero(), ValueError, r"\[nonzero\] a 0-d tensor"),
    ],
)
def test_refusals(call, kind, words):
    with pytest.raises(kind, match=words):
        call(tk.asarray(A.copy()), tk.asarray(V.copy()))


def test_methods_that_people_reach_for():
    x = tk.asarray(A.copy())
    z = x + 2j
    assert x.real is x
    assert x.conj().tolist() == A.tolist()
    assert x.imag.tolist() == np.zeros((3, 4)).tolist()
    assert z.imag.tolist() == np.full((3, 4), 2.0).tolist()
    assert z.real.dtype == tk.float64
    assert z.conj().imag.tolist() == np.full((3, 4), -2.0).tolist()
    assert x.flip(0).tolist() == A[::-1].tolist()
    assert x.flip(0, 1).tolist() == A[::-1, ::-1].tolist()
    assert x.flip(axis=1).tolist() == A[:, ::-1].tolist()
    assert tk.ones((1, 2, 1)).squeeze().shape == (2,)
    assert x.expand(2, 3, 4).shape == (2, 3, 4)
    assert (x.numel(), x.dim()) == (12, 2)
    assert x.clamp(0, 1).tolist() == A.clip(0, 1).tolist()
    assert not tk.shares_storage(x.copy(), x)
    assert x.clone().fill_(3).tolist() == np.full((3, 4), 3.0).tolist()
    assert x.diagonal().tolist() == A.diagonal().tolist()
    assert x.tile((2, 1)).tolist() == np.tile(A, (2, 1)).tolist()
    assert [i.tolist() for i in (x > 0).nonzero()] == [i.tolist() for i in np.nonzero(A > 0)]
    assert not x.isnan().tolist()[0][0]
    assert x.isfinite().tolist()[0][0]
    assert not x.isinf().tolist()[0][0]
    assert tk.piecewise(x, [A < 0], [1, 2]).tolist() == np.where(A < 0, 1.0, 2.0).tolist()
