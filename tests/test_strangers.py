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
        (lambda path: tk.set_num_threads("two"), TypeError, r"\[set_num_threads\] the number of threads is an int"),
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
