"""Results with tangents written into tensors that had none: Note [Targets without a tangent]."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey import Tensor
from tenkey.autograd.forward_ad import dual_level, make_dual, unpack_dual
from tenkey.transforms import jacfwd, jvp, vmap

Values = np.ndarray[Any, Any]


def tangent_of(x: Tensor) -> Any:
    tangent = unpack_dual(x).tangent
    return None if tangent is None else tangent.tolist()


def dual(*values: float) -> Any:
    return make_dual(tk.tensor(values), tk.tensor([10.0 * v for v in values]))


# ---- what PyTorch gives


def test_a_tensor_without_a_tangent_gets_one() -> None:
    with dual_level():
        d = dual(1.0, 2.0, 3.0)
        plain = tk.ones(3)
        assert plain.mul_(d) is plain
        assert (unpack_dual(plain).primal.tolist(), tangent_of(plain)) == ([1.0, 2.0, 3.0], [10.0, 20.0, 30.0])
        plain *= 2.0
        assert tangent_of(plain) == [20.0, 40.0, 60.0]
        plain.copy_(tk.full(3, 3.0))
        assert tangent_of(plain) == [0.0, 0.0, 0.0]
        into = tk.zeros(4)
        into[1:] = d
        assert tangent_of(into) == [0.0, 10.0, 20.0, 30.0]
        into[tk.asarray([0])] = d[2:]
        assert tangent_of(into) == [30.0, 10.0, 20.0, 30.0]


def test_views_see_the_tangent() -> None:
    with dual_level():
        d = dual(1.0, 2.0, 3.0)
        base = tk.zeros(4)
        head, tail = base[:2], base.reshape((2, 2))[1]
        base[1:] = d
        assert [tangent_of(x) for x in (head, tail)] == [[0.0, 10.0], [20.0, 30.0]]
        base = tk.zeros(4)
        tail, head = base[1:], base[:2]
        tail.copy_(d)
        assert [tangent_of(x) for x in (base, head)] == [[0.0, 10.0, 20.0, 30.0], [0.0, 10.0]]
        head.mul_(2.0)
        assert [tangent_of(x) for x in (base, tail)] == [[0.0, 20.0, 20.0, 30.0], [20.0, 20.0, 30.0]]
        assert tangent_of(base[1]) == 20.0  # a view that is made later


def test_a_detached_tensor_is_not_a_view() -> None:
    with dual_level():
        base = tk.zeros(2)
        apart = base.detach()
        base.add_(dual(1.0, 2.0))
        assert (tangent_of(apart), apart.tolist()) == (None, [1.0, 2.0])
        other = tk.zeros(2)
        other.detach().add_(dual(1.0, 2.0))
        assert tangent_of(other) is None


def test_a_part_of_a_dual_is_a_tensor_of_its_own() -> None:
    with dual_level():
        base, direction = tk.ones(2), tk.ones(2)
        made = make_dual(base, direction)
        view = made[:1]
        base.mul_(dual(3.0, 4.0))
        assert (tangent_of(base), tangent_of(made), made.tolist()) == ([30.0, 40.0], [1.0, 1.0], [3.0, 4.0])
        assert (tangent_of(view), tangent_of(made * 2)) == ([1.0], [2.0, 2.0])
        direction.mul_(dual(3.0, 4.0))
        assert (tangent_of(direction), tangent_of(made)) == ([30.0, 40.0], [3.0, 4.0])
        primal = unpack_dual(base).primal
        primal.mul_(dual(1.0, 2.0))
        assert (tangent_of(primal), tangent_of(base)) == ([30.0, 80.0], [30.0, 40.0])


def test_integers_have_no_tangent() -> None:
    with dual_level():
        counts = tk.zeros(2, dtype=tk.int64)
        counts.copy_(dual(1.0, 2.0))
        assert (tangent_of(counts), counts.tolist()) == (None, [1, 2])


def test_out_variants() -> None:
    with dual_level():
        d, into = dual(1.0, 2.0), tk.zeros(2)
        tk.ops.tk.multiply.out(d, d, out=into)
        assert tangent_of(into) == [20.0, 80.0]


# ---- memory of every kind


LAYOUTS: list[Callable[[], Tensor]] = [
    lambda: tk.zeros((3, 4), dtype=tk.float64),
    lambda: tk.ones((4, 3), dtype=tk.float64).T,
    lambda: tk.asarray(np.full((3, 8), 0.5))[:, ::2],
    lambda: tk.asarray(np.full((3, 8), 0.5)[:, ::2]),
    lambda: tk.asarray(np.full((4, 3), 0.5).T),
    lambda: tk.zeros(24, dtype=tk.float64)[6:18].reshape((3, 4)),
    lambda: tk.asarray(np.full((3, 4), 0.5)[::-1]),
]


def _program(seed: int, x: Tensor, dtype: Any = tk.float64, batched: Any = None) -> tuple[Tensor, ...]:
    """Copies of some tensors after random views of and changes to them, in all of which ``x`` takes part."""
    rng = np.random.default_rng(seed)
    pool = [LAYOUTS[int(rng.integers(len(LAYOUTS)))]() for _ in range(2)]
    pool = [buffer if batched is None else buffer + batched for buffer in pool]
    views: list[Callable[[Tensor], Tensor]] = [
        lambda z: z[..., 1:], lambda z: z.T, lambda z: z[1], tk.linalg.diagonal, lambda z: z[::2], lambda z: z[None, 0],
    ]  # fmt: skip
    for _ in range(10):
        z = pool[int(rng.integers(len(pool)))]
        if rng.integers(2):
            view = views[int(rng.integers(len(views)))]
            if z.ndim == 2 and min(z.shape) > 1:
                pool.append(view(z))
            continue
        source = x.reshape(-1)[: z.size].reshape(z.shape)
        changes: list[Callable[[Any, Any], Any]] = [
            lambda z, s: z.mul_(s),
            lambda z, s: z.add_(s * s),
            lambda z, s: z.copy_(tk.sin(s)),
            lambda z, s: z.__setitem__(slice(1, None), s[1:] * z[:-1].clone()),
            lambda z, s: z.__setitem__(0, z[-1].clone() * s[0]),
            lambda z, s: z.mul_(0.5),
        ]
        changes[int(rng.integers(len(changes)))](z, source)
    return tuple([z.clone() for z in pool])


def _sample(seed: int) -> tuple[Values, Values, Values]:
    rng = np.random.default_rng(1000 + seed)
    return rng.standard_normal((3, 4)), rng.standard_normal((3, 4)), rng.standard_normal((3, 4))


@pytest.mark.parametrize("seed", range(25))
def test_programs_against_central_differences(seed: int) -> None:
    """First derivatives, for one direction and for a batch of directions, which the tensors are not batched by."""
    x, v, _ = _sample(seed)
    step = 1e-6
    high, low = _program(seed, tk.asarray(x + step * v)), _program(seed, tk.asarray(x - step * v))

    def push(v: Tensor) -> Any:
        return jvp(lambda x: _program(seed, x), (tk.asarray(x),), (v,))

    values, tangents = push(tk.asarray(v))
    rows = vmap(lambda v: push(v)[1])(tk.asarray(np.stack([v, 2 * v])))
    for value, plain, a, b, tangent, row in zip(
        values, _program(seed, tk.asarray(x)), high, low, tangents, rows, strict=True
    ):
        np.testing.assert_array_equal(value.numpy(), plain.numpy())
        np.testing.assert_allclose(tangent.numpy(), (a.numpy() - b.numpy()) / (2 * step), rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(row.numpy(), np.stack([tangent.numpy(), 2 * tangent.numpy()]), rtol=1e-12)


@pytest.mark.parametrize("seed", range(10))
def test_programs_in_nested_transforms(seed: int) -> None:
    """Second derivatives in all orders of the modes, and samples that the tensors are batched by."""
    x, v, w = _sample(seed)

    def total(x: Tensor, batched: Any = None) -> Tensor:
        return sum([tk.sum(z * z) * (i + 1) for i, z in enumerate(_program(seed, x, batched=batched))], tk.sum(x * 0))

    def slope(x: Any) -> Any:
        return jvp(total, (x,), (tk.asarray(v),))[1]

    step = 1e-5
    second = (slope(tk.asarray(x + step * w)).item() - slope(tk.asarray(x - step * w)).item()) / (2 * step)
    expected = pytest.approx(second, rel=1e-4, abs=1e-4)
    assert jvp(slope, (tk.asarray(x),), (tk.asarray(w),))[1].item() == expected
    assert np.sum(tk.transforms.grad(slope)(tk.asarray(x)).numpy() * w) == expected
    pulled = jvp(tk.transforms.grad(total), (tk.asarray(x),), (tk.asarray(v),))[1]
    assert np.sum(pulled.numpy() * w) == expected
    xs, vs = np.stack([x, w]), np.stack([v, x])
    slopes = vmap(lambda x, v: jvp(lambda y: total(y, x[0, 0] * 0), (x,), (v,))[1])(tk.asarray(xs), tk.asarray(vs))
    alone = [jvp(total, (tk.asarray(a),), (tk.asarray(b),))[1].item() for a, b in zip(xs, vs, strict=True)]
    np.testing.assert_allclose(slopes.numpy(), alone, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "complex64"])
def test_other_dtypes(dtype: str) -> None:
    wanted = getattr(tk, dtype)
    with dual_level():
        d = make_dual(tk.ones(2, dtype=wanted), tk.full(2, 3.0, dtype=wanted))
        base = tk.zeros((2, 2), dtype=wanted)
        row = base.T[0]
        base[:, 0] = d
        assert tangent_of(base) == [[3.0, 0.0], [3.0, 0.0]]
        assert tangent_of(row) == [3.0, 3.0]
        assert unpack_dual(row).tangent.dtype == wanted  # type: ignore[union-attr]


def test_without_values() -> None:
    with dual_level():
        d = make_dual(tk.empty(3, device="meta"), tk.empty(3, device="meta"))
        base = tk.zeros((2, 3), device="meta")
        row = base[1]
        base[0] = d
        assert unpack_dual(row).tangent.shape == (3,)  # type: ignore[union-attr]
        assert unpack_dual(base).tangent.device == "meta"  # type: ignore[union-attr]


def test_no_elements() -> None:
    with dual_level():
        base = tk.zeros((0, 3))
        view = base[:, 1:]
        base.add_(make_dual(tk.ones(3), tk.ones(3)))
        assert unpack_dual(base).tangent.shape == (0, 3)  # type: ignore[union-attr]
        assert unpack_dual(view).tangent.shape == (0, 2)  # type: ignore[union-attr]


def test_a_jacobian_of_a_function_that_fills_a_buffer() -> None:
    def function(x: Any) -> Tensor:
        out = tk.zeros(3)
        out[0] = x[0] * x[1]
        out[1:] = tk.sin(x)
        return out

    c0, c1 = np.cos(np.float32(0.5)), np.cos(np.float32(2.0))
    np.testing.assert_allclose(
        jacfwd(function)(tk.tensor([0.5, 2.0])).numpy(), [[2.0, 0.5], [c0, 0.0], [0.0, c1]], rtol=1e-6
    )


# ---- with reverse mode


def test_the_tangent_is_recorded() -> None:
    x = tk.tensor([1.0, 2.0], requires_grad=True)
    with dual_level():
        base = tk.zeros(3)
        view = base[1:]
        base[:2] = make_dual(x, tk.ones(2)) ** 3
        assert base.requires_grad
        assert view.requires_grad
        tangent = unpack_dual(view).tangent
        assert tangent is not None
        (gradient,) = tk.autograd.grad(tangent.sum(), x)
        (first,) = tk.autograd.grad(unpack_dual(view).primal.sum(), x)
    assert gradient is not None
    assert first is not None
    assert gradient.tolist() == [0.0, 12.0]
    assert first.tolist() == [0.0, 12.0]


def test_what_was_saved_before_the_change_is_refused() -> None:
    x = tk.tensor([1.0, 2.0], requires_grad=True)
    base = tk.ones(2)
    view = base[:1]
    y = (x * base).sum() + (x[:1] * view).sum()
    with dual_level():
        base.mul_(dual(1.0, 2.0))
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            tk.autograd.grad(y, x, retain_graph=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        tk.autograd.grad(y, x)


def test_a_parameter_stays_the_leaf() -> None:
    parameter = tk.ones(2).requires_grad_()
    with dual_level():
        with tk.no_grad():
            parameter.add_(dual(1.0, 2.0))
        assert tangent_of(parameter) == [10.0, 20.0]
        loss = unpack_dual((parameter * parameter).sum()).primal
    assert parameter.is_leaf
    loss.backward()
    assert parameter.grad is not None
    assert parameter.grad.tolist() == [4.0, 6.0]
    with dual_level(), pytest.raises(RuntimeError, match="leaf Variable"):
        tk.ones(2).requires_grad_().add_(dual(1.0, 2.0))


# ---- the end of a level


def test_after_its_level_a_tensor_is_what_it_was() -> None:
    x = tk.tensor([1.0, 2.0], requires_grad=True)
    base = tk.zeros(3)
    view, whole = base[1:], base.reshape((3, 1))
    with dual_level():
        base[:2] = make_dual(x, tk.ones(2))
        later = unpack_dual(base).primal
        of_later = later[1:]
    for tensor in (base, view, whole, later, of_later):
        assert type(tensor) is Tensor
        assert tensor.requires_grad
        assert tk.shares_storage(tensor, base)
        assert tensor._version == base._version
    assert [t.detach().numpy().tolist() for t in (base, view)] == [[1.0, 2.0, 0.0], [2.0, 0.0]]
    view.mul_(3.0)  # and the history of all follows
    for tensor, expected in ((base, [1.0, 3.0]), (later, [1.0, 3.0]), (of_later, [0.0, 3.0]), (whole, [1.0, 3.0])):
        (gradient,) = tk.autograd.grad(tensor.sum(), x, retain_graph=True)
        assert gradient is not None
        assert gradient.tolist() == expected
    with dual_level():
        assert unpack_dual(base).tangent is None


def test_a_plain_buffer_of_many_levels() -> None:
    """Such as the running statistics of a layer: it stays a tensor of its own, and holds no level alive."""
    running, out = tk.zeros(2), None
    for _ in range(3):
        out, tangent = jvp(lambda x: running.add_(x) * 1.0, (tk.tensor([1.0, 2.0]),), (tk.ones(2),))
        assert tangent.tolist() == [1.0, 1.0]
        assert type(running) is Tensor
        assert not running.requires_grad
    assert out is not None
    assert out.tolist() == running.tolist() == [3.0, 6.0]
    assert running.numpy().tolist() == [3.0, 6.0]
    gc.collect()
    assert not [x for x in gc.get_objects() if type(x) is Tensor and x._storage is running]


def test_levels_that_nest() -> None:
    one = tk.tensor([1.0])
    buffer = tk.zeros(1)
    with dual_level() as outer:
        with dual_level() as inner:
            x = make_dual(make_dual(tk.tensor([2.0]), one, outer), one, inner)
            buffer.add_(x * x)
            first = unpack_dual(buffer, inner).tangent
            assert unpack_dual(first, outer).primal.tolist() == [4.0]  # type: ignore[arg-type]
            assert unpack_dual(first, outer).tangent.tolist() == [2.0]  # type: ignore[arg-type, union-attr]
        assert unpack_dual(buffer, outer).tangent.tolist() == [4.0]  # type: ignore[union-attr]
    assert type(buffer) is Tensor
    assert buffer.tolist() == [4.0]


def test_an_error_restores_too() -> None:
    buffer = tk.zeros(2)

    def function(x: Any) -> Any:
        buffer.add_(x)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        jvp(function, (tk.ones(2),), (tk.ones(2),))
    assert type(buffer) is Tensor
    assert buffer.tolist() == [1.0, 1.0]


# ---- what is refused changes nothing


def test_a_shape_that_does_not_fit() -> None:
    with dual_level():
        plain = tk.zeros(2)
        with pytest.raises(ValueError, match="shape"):
            plain.add_(dual(1.0, 2.0, 3.0))
        assert type(plain) is Tensor


def test_subclasses() -> None:
    class Own(Tensor):
        pass

    with dual_level():
        for base in (tk.zeros(2), tk.zeros(2).as_subclass(Own)):
            view = base[:1].as_subclass(Own)
            with pytest.raises(NotImplementedError, match=r"\[add_\] forward mode: .* a .*Own.*functional form"):
                base.add_(dual(1.0, 2.0))
            assert base.tolist() == [0.0, 0.0]
            assert type(view) is Own
