"""PyTorch's methods of tensors, compared with PyTorch."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.interop import numpy_names
from tenkey.interop.pytorch_methods import PYTORCH_METHODS
from tools import pytorch_names

torch = pytest.importorskip("torch")
A = np.arange(24.0).reshape(2, 3, 4) % 7 - 2
I = np.array([0, 2])  # noqa: E741

CALLS: dict[str, Any] = {
    "view": [lambda x: x.view(6, 4), lambda x: x.view(-1), lambda x: x.view((4, -1)), lambda x: x[0].view(12)],
    "view_as": [lambda x: x.view_as(x.view(4, 6))],
    "reshape_as": [lambda x: x.mT.reshape_as(x)],
    "expand": [lambda x: x.expand(5, -1, 3, 4), lambda x: x[:, :1].expand(2, 3, 4)],
    "expand_as": [lambda x: x[:1].expand_as(x)],
    "flatten": [lambda x: x.flatten(), lambda x: x.flatten(1), lambda x: x.flatten(0, 1), lambda x: x.flatten(-2)],
    "t": [lambda x: x[0].t(), lambda x: x[0, 0].t()],
    "contiguous": [lambda x: x.mT.contiguous()],
    "split": [lambda x: x.split(2, dim=1), lambda x: x.split([1, 3], 2), lambda x: x.split(1), lambda x: x.split(9)],
    "chunk": [lambda x: x.chunk(3, dim=2), lambda x: x.chunk(2), lambda x: x.chunk(5, 2), lambda x: x.chunk(2, -1)],
    "narrow": [lambda x: x.narrow(2, 1, 2), lambda x: x.narrow(dim=0, start=-1, length=1)],
    "select": [lambda x: x.select(1, 2), lambda x: x.select(dim=-1, index=-1)],
    "index_select": [lambda x: x.index_select(1, x.new_tensor(I, dtype=_int64(x)))],
    "unbind": [lambda x: x.unbind(), lambda x: x.unbind(dim=1), lambda x: x.unbind(-1)],
    "movedim": [lambda x: x.movedim(0, 2)],
    "roll": [lambda x: x.roll(1, 0), lambda x: x.roll(shifts=-1, dims=2)],
    "swapdims": [lambda x: x.swapdims(0, 2), lambda x: x.swapdims(dim0=0, dim1=1)],
    "diagonal": [lambda x: x.diagonal(1, 1, 2), lambda x: x.diagonal(dim1=0, dim2=2)],
    "unsqueeze": [lambda x: x.unsqueeze(1), lambda x: x.unsqueeze(dim=-1)],
    "permute": [lambda x: x.permute(2, 0, 1), lambda x: x.permute((1, 0, 2))],
    "flip": [lambda x: x.flip(0, 2), lambda x: x.flip(dims=(1,))],
    "norm": [
        lambda x: x.norm(), lambda x: x.norm(1, dim=1), lambda x: x.norm(p=3, dim=(0, 1), keepdim=True),
        lambda x: x.norm("fro"), lambda x: x.norm(float("inf"), 0),
    ],
    "clamp": [lambda x: x.clamp(0, 2), lambda x: x.clamp(min=1), lambda x: x.clamp(max=1)],
    "clamp_min": [lambda x: x.clamp_min(1)], "clamp_max": [lambda x: x.clamp_max(1)],
    "lerp": [lambda x: x.lerp(x * 2, 0.25)],
    "amax": [lambda x: x.amax(dim=1), lambda x: x.amax((0, 2), True)], "amin": [lambda x: x.amin(dim=-1, keepdim=True)],
    "sum": [lambda x: x.sum(1, True), lambda x: x.sum(dim=(0, 1)), lambda x: x.sum(-1, keepdim=True)],
    "mean": [lambda x: x.mean(dim=0)], "logsumexp": [lambda x: x.logsumexp(1, True), lambda x: x.logsumexp(dim=0)],
    "any": [lambda x: (x > 3).any(dim=1)], "all": [lambda x: (x > -3).all(dim=1, keepdim=True)],
    "softmax": [lambda x: x.softmax(dim=1)], "log_softmax": [lambda x: x.log_softmax(dim=0)],
    "cumsum": [lambda x: x.cumsum(dim=1)], "cumprod": [lambda x: x.cumprod(dim=2)],
    "diff": [lambda x: x.diff(dim=1), lambda x: x.diff(2)],
    "eq": [lambda x: x.eq(3), lambda x: x.ne(3), lambda x: x.eq(x.flip(0))],
    "lt": [lambda x: x.lt(2), lambda x: x.le(2), lambda x: x.gt(2), lambda x: x.ge(2)],
    "mm": [lambda x: x[0].mm(x[1].t())], "bmm": [lambda x: x.bmm(x.mT)], "mv": [lambda x: x[0].mv(x[1, 2])],
    "outer": [lambda x: x[0, 0].outer(x[0, 1])],
    "det": [lambda x: (x[0, :, :3] + 5 * x.new_tensor(np.eye(3))).det()],
    "inverse": [lambda x: (x[0, :, :3] + 9 * x.new_tensor(np.eye(3))).inverse()],
    "floor_divide": [lambda x: x.floor_divide(3)], "remainder": [lambda x: x.remainder(3)],
    "fmod": [lambda x: x.fmod(3)],
    "logical_and": [lambda x: (x > 0).logical_and(x < 2), lambda x: (x > 0).logical_or(x < -1)],
    "count_nonzero": [lambda x: x.count_nonzero(), lambda x: x.count_nonzero(dim=1)],
    "masked_fill": [lambda x: x.masked_fill(x > 2, -1.0)],
    "float": [lambda x: x.float(), lambda x: x.double(), lambda x: x.half(), lambda x: x.long(), lambda x: x.int()],
    "bool": [lambda x: x.bool(), lambda x: x.short(), lambda x: x.char(), lambda x: x.cdouble(), lambda x: x.cfloat()],
    "type_as": [lambda x: x.type_as(x.long()), lambda x: x.cpu()],
    "new_zeros": [
        lambda x: x.new_zeros(2, 3), lambda x: x.new_ones((2,)), lambda x: x.float().new_full((3,), 7.0),
        lambda x: x.new_tensor([1, 2]),
    ],
    "numel": [lambda x: x.numel(), lambda x: x.nelement(), lambda x: x.dim(), lambda x: x.element_size()],
    "stride": [lambda x: x.mT.stride(), lambda x: x.stride(1), lambda x: x.is_floating_point(), lambda x: x.is_cuda],
    "clamp_": [lambda x: x.clone().clamp_(0, 2), lambda x: x.clone().masked_fill_(x > 2, 0)],
    "tril_": [lambda x: x.clone().tril_()],
}  # fmt: skip


def _int64(x: Any) -> Any:
    return tk.int64 if isinstance(x, tk.Tensor) else torch.int64


def _plain(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [_plain(each) for each in value]
    return value.detach().numpy() if hasattr(value, "detach") else value


@pytest.mark.parametrize("name", CALLS)
def test_same_as_pytorch(name: str) -> None:
    for call in CALLS[name]:
        got, want = call(tk.asarray(A)), call(torch.tensor(A))
        assert type(got) is (tk.Tensor if isinstance(want, torch.Tensor) else type(want))
        got, want = _plain(got), _plain(want)
        for ours, theirs in zip(*([got], [want]) if not isinstance(got, list) else (got, want), strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-12, strict=True)


def test_every_name_is_a_method_of_pytorch() -> None:
    ours_alone = {"not_equal", "fliplr", "flipud", "clip_", "softmax_", "arctan2"}  # NumPy's names among them
    missing = [name for name in PYTORCH_METHODS if not hasattr(torch.Tensor, name)]
    assert set(missing) <= ours_alone
    assert all(callable(getattr(tk.Tensor, name)) for name in PYTORCH_METHODS)
    assert set(numpy_names.METHODS) <= set(PYTORCH_METHODS)


def test_functions_with_pytorchs_names() -> None:
    x, y = tk.asarray(A), torch.tensor(A)
    for call in (
        lambda xp, x: xp.cat([x, x]), lambda xp, x: xp.cat((x, x), 1), lambda xp, x: xp.cat([x, x], dim=-1),
        lambda xp, x: xp.cat(tensors=[x], dim=0),
    ):  # fmt: skip
        np.testing.assert_array_equal(call(tk, x).numpy(), call(torch, y).numpy(), strict=True)
    for call in (
        lambda xp: xp.rand(2, 3), lambda xp: xp.rand((4,)), lambda xp: xp.randn(3), lambda xp: xp.randn(2, 0),
        lambda xp: xp.randn(2, dtype=xp.float64, requires_grad=True), lambda xp: xp.randint(3, (2, 3)),
        lambda xp: xp.randint(5, 7, (4,)), lambda xp: xp.randint(low=5, high=7, size=(4,)), lambda xp: xp.randn(()),
    ):  # fmt: skip
        ours, theirs = call(tk), call(torch)
        assert (ours.shape, ours.requires_grad) == (tuple(theirs.shape), theirs.requires_grad)
        assert str(theirs.dtype) == f"torch.{ours.dtype}"
    tk.random.seed(3)
    first = (tk.rand(3).tolist(), tk.randn(2).tolist(), tk.randint(9, (2,)).tolist())
    tk.random.seed(3)
    again = (tk.random.uniform(3).tolist(), tk.random.normal(2).tolist(), tk.random.integers(9, shape=2).tolist())
    assert first == again
    with pytest.raises(TypeError, match=r"\[randint\] needs the size of the result"):
        tk.randint(3)
    with pytest.raises(TypeError, match=r"\[cat\] has no argument 'foo'"):
        tk.cat([x], foo=1)


def test_attributes_that_are_methods_in_pytorch() -> None:
    x, y = tk.asarray(A), torch.tensor(A)
    assert (x.size(), x.size(0), x.size(dim=-1)) == (tuple(y.size()), y.size(0), y.size(dim=-1))
    assert x.is_contiguous()
    assert not x.mT.is_contiguous()
    assert x.size == 24
    assert pickle.loads(pickle.dumps(x.size)) == 24
    assert tk.zeros(x.size).shape == np.zeros(x.size).shape == (24,)
    assert (repr(x.size), repr(x.is_contiguous)) == ("24", "True")
    with pytest.raises(IndexError):
        x.size(3)


def test_the_page_is_up_to_date() -> None:
    assert pytorch_names.page() == pytorch_names.PAGE.read_text(), "run `python -m tools.pytorch_names`"


def test_views_are_views() -> None:
    x = tk.asarray(A.copy())
    for view in (x.view(-1), x.split(2, 2)[1], x.chunk(2)[0], x.narrow(1, 0, 2), x.select(0, 1), x.unbind()[1]):
        assert tk.shares_storage(x, view)
    with pytest.raises(ValueError, match=r"\[view\] .* only as a copy. Use x.reshape"):
        x.mT.view(-1)
    assert x.contiguous() is x
    assert x.double() is x


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "float32", "complex64", "complex128", "int64"])
def test_views_of_another_dtype(dtype: str) -> None:
    x = tk.asarray(A.copy())
    want = A.view(dtype)
    got = x.view(getattr(tk, dtype))
    assert got.dtype == np.dtype(dtype)
    np.testing.assert_array_equal(got.numpy(), want)
    assert tk.shares_storage(x, got)
    version = x._version
    got.zero_()
    assert x._version == version + 1
    assert not tk.any(x).item()


def test_views_of_another_dtype_on_a_device() -> None:
    x = tk.zeros((2, 4), device="meta")
    assert x.view(tk.int32).shape == (2, 4)
    assert x.view(tk.int16).shape == (2, 8)
    assert x[:, :2].view(tk.float64).shape == (2, 1)


def test_views_of_another_dtype_that_are_refused() -> None:
    x = tk.asarray(A)
    with pytest.raises(ValueError, match=r"\[view\] float64 and int32 have different sizes"):
        x.mT.view(tk.int32)
    with pytest.raises(ValueError, match=r"\[view\] float64 and complex128 have different sizes"):
        x[..., :3].view(tk.complex128)
    with pytest.raises(RuntimeError, match=r"\[view\] a tensor that requires a gradient"):
        x.requires_grad_().view(tk.int64)
    assert x.view(tk.float64).requires_grad


def test_gradients_flow() -> None:
    x = tk.tensor(A, requires_grad=True)
    parts = x.view(-1).split([10, 14])
    (parts[0].norm() + x.chunk(2)[1].float().double().sum() + x.unbind(1)[0].amax(dim=1).sum()).backward()
    y = torch.tensor(A, requires_grad=True)
    parts = y.view(-1).split([10, 14])
    (parts[0].norm() + y.chunk(2)[1].float().double().sum() + y.unbind(1)[0].amax(dim=1).sum()).backward()
    np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy())


def test_they_work_inside_vmap() -> None:
    x = tk.asarray(A)
    assert tk.vmap(lambda row: row.view(-1).split(6)[1])(x).tolist() == A.reshape(2, 12)[:, 6:].tolist()
    assert tk.vmap(lambda row: row.norm(dim=0))(x).tolist() == tk.linalg.vector_norm(x, axis=1).tolist()


def test_detach_in_place() -> None:
    x = tk.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    assert y.detach_() is y
    assert (y.requires_grad, y.is_leaf) == (False, True)


@pytest.mark.parametrize(("call", "kind", "words"), [
    (lambda x: x.split(0), ValueError, r"\[split\] the length of the pieces must be positive, got 0"),
    (lambda x: x.split([1, 1], 2), ValueError, r"\[split\] the lengths \[1, 1\] do not add up to the length 4"),
    (lambda x: x.chunk(0), ValueError, r"\[chunk\] takes a positive number of pieces"),
    (lambda x: x.split(2, 3), IndexError, r"\[split\] dimension 3 is out of range for shape \(2, 3, 4\)"),
    (lambda x: x.flatten(2, 1), ValueError, r"\[flatten\] start_dim=2 comes after end_dim=1"),
    (lambda x: x.narrow(0, 1, 2), IndexError, r"\[narrow\] start=1, length=2 do not fit into the length 2"),
    (lambda x: x.t(), ValueError, r"\[t\] takes at most two dimensions, got shape \(2, 3, 4\)"),
    (lambda x: x.norm("nuc"), ValueError, r"\[norm\] ord is a number or 'fro', got 'nuc'"),
    (lambda x: x.type(), TypeError, r"\[type\] takes a dtype: the dtype of the tensor is x.dtype"),
    (lambda x: x.view(7), ValueError, r"\[view\]"),
    (lambda x: x.split(), TypeError, r"\[split\] missing 1 required positional argument: 'split_size'"),
    (lambda x: x.view(2, foo=1), TypeError, r"Tensor.view\(\) got an unexpected keyword argument 'foo'"),
])  # fmt: skip
def test_errors(call: Any, kind: type[Exception], words: str) -> None:
    with pytest.raises(kind, match=words):
        call(tk.asarray(A))
