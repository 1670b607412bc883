"""Whole programs of views and changes in place: their gradients against PyTorch's and finite differences.

The gradients of PROGRAMS are those that PyTorch 2.13 computes for the same program, but for two which it refuses.
Random programs are compared with what the same steps give without any change in place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tenkey as tk
from tenkey import Tensor
from tenkey.autograd import grad, gradcheck, gradgradcheck
from tenkey.transforms import jvp, vmap
from tests._backends import Host
from tests._tiers import tier


def start() -> Tensor:
    return (tk.arange(1.0, 13.0, dtype=tk.float64).reshape((3, 4)) / 4).requires_grad_()


def zeros(*shape: int) -> Tensor:
    return tk.zeros(shape, dtype=tk.float64)


def values_of(tensor: Tensor | None) -> Any:
    assert tensor is not None
    return tensor.detach().tolist()


# ---- whole programs


def _loop(x: Tensor) -> Tensor:
    y = x * 1.0
    for i in range(2):
        y[i + 1] += y[i] * 2.0
    return y


def _rows(x: Tensor) -> Tensor:
    table = zeros(3, 4)
    for i in range(3):
        table[i] = x[i] * float(i + 1)
    return table * table


def _chain(x: Tensor) -> Tensor:
    y = x * 2.0
    part = y[1:][:, 1:][0]
    part.mul_(3.0)
    part[0] = 5.0
    return y * y


def _transposed(x: Tensor) -> Tensor:
    y = x * 2.0
    y.T[1] = x[:, 0] * x[:, 0]
    return y * y


def _views_made_before(x: Tensor) -> Tensor:  # PyTorch refuses to change ``last``
    base = zeros(3, 4)
    first, last = base[0], base[-1]
    base += x * x
    last.mul_(2.0)
    return first * 3.0 + last


def _source_into_a_view(x: Tensor) -> Tensor:
    base = zeros(3, 4)
    flat, row = base.reshape(12), base[1]
    row.add_(x[0] * x[0])
    return flat * flat


def _diagonal(x: Tensor) -> Tensor:
    y = x * 1.0
    y.diagonal().mul_(x[:, 0])
    return y * y


def _formula_of_old_values(x: Tensor) -> Tensor:  # PyTorch refuses in backward: sqrt had saved its result
    y = x * x
    v = y[1:]
    v.sqrt_()
    v.log_()
    return y + v.sum()


def _copy_and_fill(x: Tensor) -> Tensor:
    y = x * 2.0
    y[0].copy_(x[1])
    y[1].fill_(7.0)
    y[2].zero_()
    return y * y


def _overwritten(x: Tensor) -> Tensor:
    y = x * 2.0
    y.zero_()
    y[:, 1] = x[:, 1] * 3.0
    return y


def _old_view(x: Tensor) -> Tensor:
    y = x * 1.0
    v = y[0]
    z = v + 1.0  # saves nothing
    y.mul_(10.0)
    return z + v


def _view_of_view(x: Tensor) -> Tensor:
    y = x * 1.0
    a = y[1:]
    b = a[0]
    b *= x[0]
    a += 1.0
    return y * 2.0 + b


def _detached(x: Tensor) -> Tensor:
    y = x * 1.0
    d = y.detach()
    d[0] = 100.0
    return y * 2.0 + d


def _no_grad_in_between(x: Tensor) -> Tensor:
    y = x * 2.0
    v = y[0]
    with tk.no_grad():
        v.mul_(5.0)
    v.mul_(x[1])
    return y + v


def _zero_size(x: Tensor) -> Tensor:
    y = x * 2.0
    y[:0].add_(1.0)
    y[:, 4:] = 3.0
    return y * y


def _single(x: Tensor) -> Tensor:
    y = x[0, 0] * 1.0
    v = y.reshape(1)
    v.mul_(x[0, 1])
    y.add_(v[0] * 0.0 + 1.0)
    return y * y


def _swap(x: Tensor) -> Tensor:
    y = x * x
    top = y[0].clone()
    y[0] = y[1]
    y[1] = top
    return y * x


def _subtract_and_divide(x: Tensor) -> Tensor:
    y = x * 1.0
    y[:, 0] -= x[:, 1]
    y[:, 1] *= y[:, 0].clone()
    y[0] /= 2.0
    return y * y


PROGRAMS: list[tuple[Callable[[Tensor], Tensor], float, list[list[float]]]] = [
    (_loop, 47.5, [[7.0, 7.0, 7.0, 7.0], [3.0, 3.0, 3.0, 3.0], [1.0, 1.0, 1.0, 1.0]]),
    (_rows, 296.25, [[0.5, 1.0, 1.5, 2.0], [10.0, 12.0, 14.0, 16.0], [40.5, 45.0, 49.5, 54.0]]),
    (_chain, 404.5, [[2.0, 4.0, 6.0, 8.0], [10.0, 0.0, 126.0, 144.0], [18.0, 20.0, 22.0, 24.0]]),
    (_transposed, 155.57421875, [[2.0625, 0.0, 6.0, 8.0], [17.8125, 0.0, 14.0, 16.0], [63.5625, 0.0, 22.0, 24.0]]),
    (_views_made_before, 61.375, [[1.5, 3.0, 4.5, 6.0], [0.0, 0.0, 0.0, 0.0], [9.0, 10.0, 11.0, 12.0]]),
    (_source_into_a_view, 1.3828125, [[0.0625, 0.5, 1.6875, 4.0], [0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]),
    (_diagonal, 72.5546875, [[0.0625, 1.0, 1.5, 2.0], [8.125, 4.6875, 3.5, 4.0], [38.53125, 5.0, 27.84375, 6.0]]),
    (
        _formula_of_old_values,
        76.2194750926126,
        [
            [0.5, 1.0, 1.5, 2.0],
            [10.4, 8.6666666667, 7.4285714286, 6.5],
            [5.7777777778, 5.2, 4.7272727273, 4.3333333333],
        ],
    ),
    (_copy_and_fill, 206.875, [[0.0, 0.0, 0.0, 0.0], [2.5, 3.0, 3.5, 4.0], [0.0, 0.0, 0.0, 0.0]]),
    (_overwritten, 13.5, [[0.0, 3.0, 0.0, 0.0], [0.0, 3.0, 0.0, 0.0], [0.0, 3.0, 0.0, 0.0]]),
    (_old_view, 31.5, [[11.0, 11.0, 11.0, 11.0], [0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]),
    (_view_of_view, 75.875, [[8.25, 9.5, 10.75, 12.0], [1.25, 2.5, 3.75, 5.0], [2.0, 2.0, 2.0, 2.0]]),
    (_detached, 1251.0, [[2.0, 2.0, 2.0, 2.0], [2.0, 2.0, 2.0, 2.0], [2.0, 2.0, 2.0, 2.0]]),
    (_no_grad_in_between, 209.0, [[10.0, 12.0, 14.0, 16.0], [12.0, 22.0, 32.0, 42.0], [2.0, 2.0, 2.0, 2.0]]),
    (_zero_size, 162.5, [[2.0, 4.0, 6.0, 8.0], [10.0, 12.0, 14.0, 16.0], [18.0, 20.0, 22.0, 24.0]]),
    (_single, 1.265625, [[1.125, 0.5625, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]]),
    (_swap, 86.0625, [[2.1875, 3.75, 5.6875, 8.0], [0.6875, 1.75, 3.1875, 5.0], [15.1875, 18.75, 22.6875, 27.0]]),
    (
        _subtract_and_divide,
        24.69140625,
        [[-0.15625, 0.171875, 0.375, 0.5], [-1.625, 1.8125, 3.5, 4.0], [-3.625, 3.9375, 5.5, 6.0]],
    ),
]


@pytest.mark.parametrize(("program", "total", "gradient"), PROGRAMS, ids=[p[0].__name__ for p in PROGRAMS])
def test_programs(program: Callable[[Tensor], Tensor], total: float, gradient: list[list[float]]) -> None:
    x = start()
    out = program(x).sum()
    out.backward()
    np.testing.assert_allclose(out.item(), total)
    np.testing.assert_allclose(values_of(x.grad), gradient, rtol=1e-9)


@pytest.mark.filterwarnings("ignore")
def test_programs_on_another_device(monkeypatch: pytest.MonkeyPatch) -> None:
    class Made(Host):
        name = "made"

    with tk.backends.register(Made()):
        monkeypatch.setitem(globals(), "zeros", lambda *shape: tk.zeros(shape, dtype=tk.float64, device="made"))
        for program, total, gradient in PROGRAMS:
            x = start().detach().to_device("made").requires_grad_()
            out = program(x).sum()
            out.backward()
            np.testing.assert_allclose(out.item(), total)
            assert x.grad is not None
            np.testing.assert_allclose(x.grad.numpy(), gradient, rtol=1e-9)
        c = tk.tensor([1.0, 2.0], dtype=tk.float64, requires_grad=True)
        b = zeros(6)
        part = b[1:3]
        part.copy_(c)
        b[4:] = c
        (b * b).sum().backward()
        assert values_of(c.grad) == [4.0, 8.0]


_CONSTANTS = ("_detached", "_no_grad_in_between")  # what is done there without a record, finite differences see
# a buffer that has no tangent, or is no batch, takes none: there it would have to be made with zeros_like(x)
_BUFFERS = ("_rows", "_views_made_before", "_source_into_a_view")
_DIFFERENTIABLE = [p[0] for p in PROGRAMS if p[0].__name__ not in _CONSTANTS]


@pytest.mark.parametrize("program", _DIFFERENTIABLE, ids=lambda p: p.__name__)
def test_derivatives_of_all_kinds(program: Callable[[Tensor], Tensor]) -> None:
    """Finite differences, of the second order too; forward mode; and a batch, sample by sample."""
    x = (start().detach() + 0.3).requires_grad_()
    assert gradcheck(program, (x,))
    assert gradgradcheck(program, (x,))
    if program.__name__ in _BUFFERS:
        return
    tangent = tk.cos(x.detach())
    _, along = jvp(program, (x.detach(),), (tangent,))
    y = program(x)
    seed = tk.sin(tk.arange(float(y.size), dtype=tk.float64) + 1.0).reshape(y.shape)
    (back,) = grad(y, x, seed, retain_graph=True)
    assert back is not None
    np.testing.assert_allclose((along * seed).sum().item(), (back * tangent).sum().item())
    stack = tk.stack([x.detach(), x.detach() * 2.0])
    together = vmap(tk.transforms.grad(lambda one: program(one).sum()))(stack)
    for one, found in zip(stack, together, strict=True):
        own = one.clone().requires_grad_()
        np.testing.assert_allclose(values_of(found), values_of(grad(program(own).sum(), own)[0]))


# ---- random programs
#
# The reference keeps only the base, as a value that is never changed: a view is a list of indices of its elements
# (places in the flat base), and a change scatters new values there with a matrix of zeros and ones.


class Reference:
    """A base of n elements, and views as places in it."""

    def __init__(self, base: Tensor, shape: tuple[int, ...]) -> None:
        self.flat = base.reshape((-1,))
        self.views: list[np.ndarray[Any, Any]] = [np.arange(self.flat.size).reshape(shape)]

    def read(self, at: int) -> Tensor:
        places = self.views[at]
        chosen = np.eye(self.flat.size)[places.reshape(-1)]
        return tk.matmul(tk.asarray(chosen), self.flat).reshape(places.shape)

    def write(self, at: int, values: Tensor) -> None:
        chosen = np.eye(self.flat.size)[self.views[at].reshape(-1)]
        keep = tk.asarray(1.0 - chosen.sum(0))
        spread = tk.broadcast_to(values, self.views[at].shape).reshape((-1,))
        self.flat = self.flat * keep + tk.matmul(tk.asarray(chosen.T.copy()), spread)


VIEWS: list[Callable[[Any], Any]] = [
    lambda v: v[0],
    lambda v: v[-1:],
    lambda v: v[..., ::2],
    lambda v: v[..., 1:],
    lambda v: v.T if v.ndim == 2 else v[None],
    lambda v: v.reshape((-1,)),
    lambda v: v[None],
    lambda v: v.diagonal(),
]
CHANGES: list[tuple[Callable[[Tensor, Tensor], Any], Callable[[Tensor, Tensor], Tensor]]] = [
    (lambda v, w: v.add_(w), lambda v, w: v + w),
    (lambda v, w: v.mul_(w), lambda v, w: v * w),
    (lambda v, w: v.sin_(), lambda v, w: tk.sin(v)),
    (lambda v, w: v.exp_(), lambda v, w: tk.exp(v)),
    (lambda v, w: v.copy_(w), lambda v, w: w),
    (lambda v, w: v.__setitem__(..., w * w), lambda v, w: w * w),
    (lambda v, w: v.mul_(2.0), lambda v, w: v * 2.0),
    (lambda v, w: v.zero_(), lambda v, w: v * 0.0),
    (lambda v, w: v.mul_(v.clone()), lambda v, w: v * v),
]
WRITES: list[tuple[Callable[[Tensor, Tensor], Any], Callable[[Tensor, Tensor], Tensor]]] = [
    (lambda v, w: v.add_(w), lambda v, w: v + w),
    (lambda v, w: v.copy_(w), lambda v, w: w),
    (lambda v, w: v.__setitem__(..., w), lambda v, w: w),
    (lambda v, w: v.sub_(w), lambda v, w: v - w),
]
_STEPS = st.lists(
    st.tuples(
        st.sampled_from(["view", "view", "change", "change", "change by a view", "write a view", "use"]),
        st.integers(0, 6),
        st.integers(0, 50),
        st.integers(0, 3),
    ),
    min_size=2,
    max_size=8,
)


def run(steps: list[Any], x: Tensor, buffer: bool) -> tuple[Tensor, Tensor]:
    """The program in place, and its result by the reference."""
    shape = (2, 4)
    base = tk.zeros(shape, dtype=tk.float64) if buffer else x.reshape(shape) * 0.5
    reference = Reference(base.clone(), shape)
    views = [base]
    total, expected = tk.sum(x) * 0.0, tk.sum(x) * 0.0
    for kind, at, choice, other in steps:
        at %= len(views)
        if kind == "view":
            take = VIEWS[choice % len(VIEWS)]
            try:
                found = take(reference.views[at])
            except (IndexError, ValueError):
                continue
            made = take(views[at])
            if tk.shares_storage(made, base):  # reshape may have made a copy
                views.append(made)
                reference.views.append(found)
        elif kind == "use":
            total = total + tk.sum(tk.cos(views[at]) * (at + 1.0))
            expected = expected + tk.sum(tk.cos(reference.read(at)) * (at + 1.0))
            continue
        elif kind == "write a view":  # overlapping or not; what the view is part of is changed by that too
            shape = reference.views[at].shape
            given = next((i for i in range(len(views)) if i != at and reference.views[i].shape == shape), at)
            change, functional = WRITES[choice % len(WRITES)]
            new = functional(reference.read(at), reference.read(given))
            change(views[at], views[given])
            reference.write(at, new)
        else:
            change, functional = CHANGES[choice % len(CHANGES)]
            if kind == "change by a view" and reference.views[other % len(views)].size:
                place = (0,) * reference.views[other % len(views)].ndim
                w = tk.sin(views[other % len(views)][place].clone())
                by = tk.sin(reference.read(other % len(views))[place])
            else:
                w = by = tk.cos(x[other])
            change(views[at], w)
            reference.write(at, functional(reference.read(at), by))
    for at, view in enumerate(views):
        np.testing.assert_allclose(view.detach().numpy(), reference.read(at).detach().numpy(), rtol=1e-12)
    # cos saves its input, so what was used earlier is counted only if nothing was changed since
    last = sum((tk.sum(v * v * (i + 1.0)) for i, v in enumerate(views)), tk.sum(x) * 0.0)
    want = sum((tk.sum(reference.read(i) ** 2 * (i + 1.0)) for i in range(len(views))), tk.sum(x) * 0.0)
    changed_after_use = any(
        k not in ("view", "use") for i, (k, *_) in enumerate(steps) if any(s[0] == "use" for s in steps[:i])
    )
    return (last, want) if changed_after_use else (last + total, want + expected)


@pytest.mark.wider
@settings(max_examples=tier(33, 100), deadline=None)
@given(_STEPS, st.booleans())
def test_random_programs(steps: list[Any], buffer: bool) -> None:
    x = (tk.arange(8.0, dtype=tk.float64) / 8.0 + 0.1).requires_grad_()
    ours, want = run(steps, x, buffer)
    np.testing.assert_allclose(ours.item(), want.item(), rtol=1e-10)
    (g,) = grad(ours, x, create_graph=True)
    (h,) = grad(want, x, create_graph=True)
    assert g is not None
    assert h is not None
    np.testing.assert_allclose(values_of(g), values_of(h), rtol=1e-9, atol=1e-9)
    if not g.requires_grad:
        return
    (second,) = grad(g.sum(), x, retain_graph=True, allow_unused=True, materialize_grads=True)
    zero = tk.sum(x) * 0.0
    (second_want,) = grad(h.sum() + zero, x)
    np.testing.assert_allclose(values_of(second), values_of(second_want), rtol=1e-7, atol=1e-7)
