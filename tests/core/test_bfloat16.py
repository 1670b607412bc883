"""Tensors of dtype bfloat16, which the optional package ml_dtypes brings."""

from __future__ import annotations

import copy
import math
import pickle
import subprocess
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.core.exchange import capsules

ml_dtypes = pytest.importorskip("ml_dtypes", reason="bfloat16 comes from ml_dtypes")
BF16 = np.dtype(ml_dtypes.bfloat16)

UNARY = [
    "abs", "ceil", "cos", "exp", "expm1", "floor", "isfinite", "isnan", "log", "log1p", "negative", "reciprocal",
    "round", "sign", "sin", "sqrt", "square", "tanh",
]  # fmt: skip
BINARY = [
    "add", "divide", "equal", "floor_divide", "greater", "less", "maximum", "minimum", "multiply", "pow", "remainder",
    "subtract",
]  # fmt: skip
REDUCTIONS = ["sum", "prod", "max", "min", "mean", "logsumexp", "all", "any", "argmax", "argmin"]


def values(shape: tuple[int, ...] = (3, 5), seed: int = 0) -> np.ndarray:
    drawn: np.ndarray = np.random.default_rng(seed).uniform(0.5, 3.0, shape).astype(BF16)
    return drawn


def rounded(x: tk.Tensor) -> np.ndarray:
    """What a float32 result becomes in bfloat16."""
    array = x.numpy()
    return array.astype(BF16) if array.dtype == np.float32 else array


def test_the_name() -> None:
    assert tk.bfloat16 is tk.core.dtypes.names.to_dtype("bfloat16")
    assert tk.bfloat16 == BF16
    assert tk.finfo(tk.bfloat16).eps == 2**-7
    assert tk.isdtype(tk.bfloat16, "real floating")


@pytest.mark.parametrize("name", UNARY)
def test_results_are_rounded_once(name: str) -> None:
    function = getattr(tk, name)
    for shape in ((3, 5), (), (0,), (200, 300)):
        given = values(shape)
        result = function(tk.asarray(given))
        expected = rounded(function(tk.asarray(given.astype(np.float32))))
        assert result.dtype == expected.dtype
        np.testing.assert_array_equal(result.numpy(), expected)


@pytest.mark.parametrize("name", BINARY)
def test_two_operands(name: str) -> None:
    function = getattr(tk, name)
    a, b = values(), values((5,), seed=1)
    wide = [tk.asarray(x.astype(np.float32)) for x in (a, b)]
    for left, right, wide_left, wide_right in (
        (tk.asarray(a), tk.asarray(b), *wide),
        (tk.asarray(a), 1.5, wide[0], 1.5),
        (2, tk.asarray(b), 2, wide[1]),
    ):
        result, expected = function(left, right), rounded(function(wide_left, wide_right))
        assert result.dtype == expected.dtype
        np.testing.assert_array_equal(result.numpy(), expected)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_sum_in_float32(name: str) -> None:
    function = getattr(tk, name)
    given = values((40, 50))
    wide = tk.asarray(given.astype(np.float32))
    for options in ({}, {"axis": 0}, {"axis": -1, "keepdims": True}):
        result, expected = function(tk.asarray(given), **options), rounded(function(wide, **options))
        assert result.dtype == expected.dtype
        # a composite of several operators rounds after each of them
        tolerance = 2**-6 if name == "logsumexp" else 0
        np.testing.assert_allclose(np.asarray(result, np.float64), expected.astype(np.float64), rtol=tolerance)
    assert tk.mean(tk.full(1000, 100.0, dtype=tk.float16)).item() == 100, "the sum is beyond float16"
    many = tk.ones(1000, dtype=BF16)
    assert tk.sum(many).item() == 1000, "a sum in bfloat16 stops at 256"
    assert tk.sum(tk.asarray(given), axis=(0, 1)).shape == ()


def test_dtype_of_reductions() -> None:
    x = tk.asarray([0.1] * 3, dtype=BF16)
    assert tk.sum(x, dtype=tk.float32).dtype == tk.float32
    made = tk.sum(tk.asarray([0.1, 0.2]), dtype=BF16)
    assert made.dtype == BF16
    assert made.item() == float(ml_dtypes.bfloat16(0.3))
    assert tk.sum(x, dtype=BF16).dtype == BF16


@pytest.mark.parametrize(
    ("call", "dtype"),
    [
        (lambda x: x + 1, "bfloat16"),
        (lambda x: x * 0.5, "bfloat16"),
        (lambda x: x + tk.ones(3, dtype=tk.int64), "bfloat16"),
        (lambda x: x + tk.ones(3, dtype=tk.bool), "bfloat16"),
        (lambda x: x + tk.ones(3), "float32"),
        (lambda x: x + tk.ones(3, dtype=tk.float16), "float32"),
        (lambda x: x + tk.ones(3, dtype=tk.float64), "float64"),
        (lambda x: x + 1j, "complex64"),
        (lambda x: tk.where(x > 1, x, tk.ones(3)), "float32"),
        (lambda x: tk.concat([x, tk.ones(2)]), "float32"),
        (lambda x: tk.concat([x, x]), "bfloat16"),
        (lambda x: tk.stack([x, x]), "bfloat16"),
        (lambda x: x @ x, "bfloat16"),
        (lambda x: x @ tk.ones(3), "float32"),
        (lambda x: np.ones(3, np.float32) + x, "float32"),
        (lambda x: x + ml_dtypes.bfloat16(1.5), "bfloat16"),
        (lambda x: tk.softmax(x, axis=0), "bfloat16"),
        (lambda x: x[::2], "bfloat16"),
        (lambda x: x[x > 1], "bfloat16"),
        (lambda x: x[tk.asarray([0, 2])], "bfloat16"),
        (lambda x: tk.flip(x), "bfloat16"),
        (lambda x: tk.take(x, tk.asarray([0])), "bfloat16"),
        (lambda x: x.astype("float64"), "float64"),
        (lambda x: x.astype(tk.int8).astype(BF16), "bfloat16"),
    ],
)
def test_promotion(call: Callable[[tk.Tensor], tk.Tensor], dtype: str) -> None:
    x = tk.asarray([1.0, 2.5, 3.0], dtype=BF16)
    result = call(x)
    assert str(result.dtype) == dtype
    wide = call(x.astype(tk.float32))
    np.testing.assert_allclose(result.astype(tk.complex128).numpy(), wide.astype(tk.complex128).numpy(), rtol=2**-7)


def test_meta_agrees() -> None:
    x = tk.asarray([1.0, 2.5], dtype=BF16)
    for function in (tk.exp, tk.sum, lambda v: v + tk.ones_like(v, dtype=tk.float32), lambda v: v @ v, lambda v: v > 1):
        assert function(x.to("meta")).dtype == function(x).dtype


def test_made_printed_and_converted() -> None:
    x = tk.asarray([1.5, 0.1], dtype="bfloat16")
    assert repr(x) == "tensor([1.5   , 0.1001], shape=(2,), dtype=bfloat16, device='cpu')"
    assert x.tolist() == [1.5, float(ml_dtypes.bfloat16(0.1))]
    assert type(x[0].item()) is float
    assert type(x.tolist()[0]) is float
    assert float(x[0]) == 1.5
    assert bool(x[0])
    assert x.numpy().dtype == BF16
    assert np.asarray(x, dtype=np.float64).tolist() == x.tolist()
    for made in (
        tk.zeros(2, dtype=BF16),
        tk.ones((2, 3), dtype="bfloat16"),
        tk.full((), 0.1, dtype=BF16),
        tk.arange(4, dtype=BF16),
        tk.linspace(0, 1, 3, dtype=BF16),
        tk.eye(2, dtype=BF16),
        tk.empty((0,), dtype=BF16),
        tk.ones_like(x),
        tk.asarray(np.ones(2, BF16)),
        tk.asarray(ml_dtypes.bfloat16(2)),
        tk.asarray([x, x]),
        tk.tensor([1, 2], dtype=BF16),
    ):
        assert made.dtype is tk.bfloat16
    assert tk.arange(4, dtype=BF16).tolist() == [0, 1, 2, 3]


def test_in_place() -> None:
    x = tk.asarray([1.0, 2.0, 3.0], dtype=BF16)
    y = x
    x += 0.5
    x[0] = 7
    x[1:] = tk.asarray([0.1, 0.2])
    x *= tk.asarray([2.0, 2.0, 2.0])
    assert y is x
    assert x.tolist() == [14.0, float(ml_dtypes.bfloat16(0.1)) * 2, float(ml_dtypes.bfloat16(0.2)) * 2]


def test_gradients() -> None:
    x = tk.asarray([1.0, 2.0], dtype=BF16).requires_grad_()
    (x * x * 3).sum().backward()
    assert x.grad is not None
    assert x.grad.dtype == BF16
    assert x.grad.tolist() == [6, 12]
    w = tk.tensor([1.0, 2.0], requires_grad=True)
    (w.astype(BF16) * 2).sum().backward()
    assert w.grad is not None
    assert w.grad.dtype == tk.float32
    assert w.grad.tolist() == [2, 2]
    (tangent,) = tk.autograd.grad((w * tk.asarray([3.0, 4.0], dtype=BF16)).sum(), (w,))
    assert tangent.tolist() == [3, 4]
    assert tk.transforms.vmap(tk.exp)(x.detach()).dtype == BF16


def test_autocast() -> None:
    a, v = tk.ones((2, 3)), tk.ones((3, 4)).requires_grad_()
    with tk.autocast("cpu", dtype=tk.bfloat16):
        y = a @ v
        loss = tk.sum(y)
    loss.backward()
    assert v.grad is not None
    assert (y.dtype, loss.dtype, v.grad.dtype) == (BF16, tk.float32, tk.float32)
    assert v.grad.tolist() == [[2.0] * 4] * 3


def test_copies() -> None:
    x = tk.asarray([1.5, 2.0], dtype=BF16).requires_grad_()
    for protocol in range(2, 6):
        y = pickle.loads(pickle.dumps(x, protocol))
        assert (y.dtype, y.tolist(), y.requires_grad) == (BF16, [1.5, 2.0], True)
    assert copy.deepcopy(x).dtype == BF16
    shared = x.detach().clone().share_memory_()
    assert shared.dtype == BF16
    assert shared.tolist() == [1.5, 2.0]


def test_dlpack_capsule() -> None:
    x = tk.asarray([1.5, 2.0], dtype=BF16)
    for version in (None, (1, 0)):
        inside = capsules.inside(x.__dlpack__(max_version=version)).dtype
        assert (inside.code, inside.bits, inside.lanes) == (4, 16, 1)

    class Elsewhere:
        """Another library that has bfloat16."""

        def __dlpack__(self, **asked: Any) -> Any:
            return x.__dlpack__(**asked)

        def __dlpack_device__(self) -> tuple[int, int]:
            return x.__dlpack_device__()

    y = tk.from_dlpack(Elsewhere())
    assert y.dtype is tk.bfloat16
    y += 1
    assert x.tolist() == [2.5, 3.0], "the memory is shared"
    assert tk.asarray(Elsewhere()).dtype == BF16


def test_torch() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    x = tk.asarray([[1.5, 2.0], [3.0, 4.0]], dtype=BF16)
    there = torch.from_dlpack(x.mT)
    assert there.dtype == torch.bfloat16
    assert there.tolist() == [[1.5, 3.0], [2.0, 4.0]]
    there[0, 0] = 7
    assert x[0, 0].item() == 7
    back = tk.from_dlpack(there)
    assert back.dtype == BF16
    assert tk.asarray(torch.ones(2, dtype=torch.bfloat16)).dtype == BF16
    for a, b in (("float16", "bfloat16"), ("bfloat16", "int64"), ("bfloat16", "float32"), ("bfloat16", "bool")):
        expected = (torch.ones(1, dtype=getattr(torch, a)) + torch.ones(1, dtype=getattr(torch, b))).dtype
        assert f"torch.{(tk.ones(1, dtype=a) + tk.ones(1, dtype=b)).dtype}" == str(expected)
    given = (torch.rand(100) + 0.5).to(torch.bfloat16)
    for name in ("exp", "log", "sin", "tanh", "sqrt", "sum"):
        ours, theirs = getattr(tk, name)(tk.from_dlpack(given)), getattr(torch, name)(given)
        np.testing.assert_allclose(np.asarray(ours, np.float64), theirs.double().numpy(), rtol=2**-7)


def test_everything_else_works_without_ml_dtypes() -> None:
    program = textwrap.dedent("""
        import sys
        sys.modules["ml_dtypes"] = None
        import numpy as np, tenkey as tk
        x = tk.asarray([1.0, 2.0])
        assert (x + x).sum().item() == 6 and np.from_dlpack(x).sum() == 3 and not hasattr(tk, "bfloat16")
        for call, error in (
            (lambda: tk.bfloat16, AttributeError),
            (lambda: tk.zeros(2, dtype="bfloat16"), TypeError),
            (lambda: x.to("bfloat16"), (TypeError, ValueError)),
            (lambda: tk.autocast("cpu", dtype="bfloat16"), TypeError),
        ):
            try:
                call()
            except error as caught:
                assert "ml_dtypes" in str(caught), caught
            else:
                raise AssertionError
        print("fine")
    """)
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False)
    assert (done.stdout.strip(), done.stderr) == ("fine", "")


def test_import_does_not_load_ml_dtypes() -> None:
    program = "import sys, tenkey as tk; tk.ones(2) + 1; repr(tk.ones(2)); print('ml_dtypes' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_nan_in_medians_and_quantiles() -> None:
    x = tk.asarray([1.0, float("nan"), 3.0, 7.0], dtype=tk.bfloat16)
    for whole in (tk.median(x), tk.quantile(x, 0.25), tk.quantile(x, tk.asarray([0.25]))[0]):
        assert whole.dtype == BF16
        assert math.isnan(whole.item())
    for rest in (tk.nanmedian(x), tk.nanquantile(x, 0.5), tk.nanpercentile(x, tk.asarray([50.0]))[0]):
        assert rest.dtype == BF16
        assert rest.item() == 3.0
