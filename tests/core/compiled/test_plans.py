"""Note [The compiled core]: results of plans are those of the calls in Python, and nothing outlives a registration."""

from __future__ import annotations

import contextlib
import gc
import itertools
import operator
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk
import tenkey.numpy as tnp
from tenkey.core.compiled.loading import extension
from tenkey.core.plans import is_planned, special_methods
from tenkey.core.tensor_base import SLOT_NAMES
from tenkey.dispatch import registry
from tenkey.library import scalar as s

needs_core = pytest.mark.skipif(extension is None, reason="runs in Python, without plans")

BINARY: dict[str, Callable[[Any, Any], Any]] = {
    name: getattr(operator, name)
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and_", "or_", "xor", "lt", "le",
                 "eq", "ne", "gt", "ge")
}  # fmt: skip
UNARY: dict[str, Callable[[Any], Any]] = {
    "neg": operator.neg, "abs": abs, "exp": tk.exp, "sqrt": tk.sqrt, "sum": tk.sum, "max": tk.max, "mean": tk.mean,
    "sum of rows": lambda x: tk.sum(x, axis=-1), "sum of columns": lambda x: x.sum(0, keepdims=True),
    "whole": lambda x: tk.sum(x, keepdims=True), "prod": lambda x: x.prod(axis=0), "any": lambda x: tk.any(x > 1),
    "square": lambda x: x**2, "square by float": lambda x: x**2.0, "transposed": lambda x: x.T,
    "bool": lambda x: bool(x.sum() > 1), "element": lambda x: x[(0,) * x.ndim], "row": lambda x: x[-1],
    "window": lambda x: x[..., 1:, None], "reshape": lambda x: tk.reshape(x, (-1,)),
    "where": lambda x: tk.where(x > 1, x, -x), "float": lambda x: float(x.sum()), "len": len,
}  # fmt: skip


def _arrays(seed: int = 0) -> Iterator[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(seed)
    for dtype, shape in itertools.product(("f4", "f8", "i4", "i8", "u1", "c8"), ((3,), (2, 3), (70,))):
        values = rng.integers(1, 5, shape).astype(dtype)
        yield values
        yield np.repeat(values, 2, axis=-1)[..., ::2]  # strided


def _special() -> Iterator[np.ndarray[Any, Any]]:
    for dtype, shape, value in itertools.product("fdD", ((1,), (1, 1), (5,)), (-0.0, np.inf, np.nan)):
        yield np.full(shape, value, dtype)


def _outcome(call: Callable[[], Any]) -> Any:
    try:
        result = call()
    except (TypeError, ValueError, OverflowError) as error:
        return type(error)
    if isinstance(result, np.generic):  # a 0-d array in a mode: Note [Scalars and 0-d arrays]
        result = tnp.asarray(result)
    if isinstance(result, tk.Tensor):
        values = np.where(np.isnan(result.numpy()), np.nan, result.numpy())  # the sign of nan is not defined
        return type(result), result.dtype, result.shape, values.tobytes()
    return type(result), str(result)  # nan is not equal to itself


def _in_python(method: Callable[..., Any], *args: Any) -> Any:
    """Call while a mode that does nothing is active, so that no plan serves the call."""

    class Through(tk.dispatch.DispatchMode):
        def __tk_dispatch__(self, op: Any, types: Any, args: Any, kwargs: Any) -> Any:
            return op(*args, **kwargs)

    with Through():
        return method(*args)


@pytest.mark.parametrize("name", UNARY)
def test_one_operand_has_the_bits_of_python(name: str) -> None:
    for a in (*_arrays(), *_special()):
        x = tk.from_dlpack(a) if a.flags.c_contiguous else tk.asarray(a)
        expected = _outcome(lambda x=x: _in_python(UNARY[name], x))
        for _ in range(3):
            assert _outcome(lambda x=x: UNARY[name](x)) == expected, (name, a.dtype, a.shape)


@pytest.mark.parametrize("module", [tk, tnp], ids=["tk", "tenkey.numpy"])
@pytest.mark.parametrize("name", BINARY)
def test_two_operands_have_the_bits_of_python(name: str, module: Any) -> None:
    call = BINARY[name]
    arrays = list(_arrays())[:24]
    for a in arrays:
        x = module.asarray(a)
        same = [module.asarray(b) for b in arrays if b.dtype == a.dtype and b.shape == a.shape]
        # NumPy 2.1 crashes where it compares strided integers with numbers out of their range
        others = (-1, 300, 10**30) if a.flags.c_contiguous else ()
        for y in (*same, x[0], 2, 2.5, 0, *others, np.float64(1.5), float("nan")):
            for left, right in ((x, y), (y, x)):
                if module is tk and isinstance(y, np.float64) and left is y:
                    continue  # NumPy's scalar computes, by __array_ufunc__
                with np.errstate(all="ignore"):
                    expected = _outcome(lambda left=left, right=right: _in_python(call, left, right))
                    for _ in range(3):
                        assert _outcome(lambda left=left, right=right: call(left, right)) == expected, (a.dtype, y)


@needs_core
def test_the_usual_calls_are_planned() -> None:
    x = tk.asarray([1.0, 2.0])
    p = tk.asarray([1.0, 2.0], requires_grad=True)
    for call, name in (
        (lambda x: x + x, "add"), (tk.exp, "exp"), (tk.sum, "sum"), (lambda x: x.mean(), "mean"),
        (lambda x: x * 2.0, "multiply"), (lambda x: tk.reshape(x, (2, 1)), "reshape"),
        (lambda x: x[0], "basic_index"),
    ):  # fmt: skip
        found = registry.find(f"tk::{name}")
        for operand in (x, p):
            weak = tk.core.word.WEAK_TRAIT[float] if name == "multiply" else 0
            call(operand)
            assert is_planned(found, operand._word | weak), name
    assert "a plan of the compiled core" in tk.dispatch.explain(tk.add, x, x)


@needs_core
def test_a_users_expression_is_planned_when_it_is_compiled() -> None:
    op = tk.library.pointwise("plans::cubed(Tensor x) -> Tensor", scalar=lambda T: lambda x: x * x * x + s.exp(x))
    x = tk.asarray([1.0, 2.0], dtype=tk.float64)
    expected = np.array([1.0, 2.0]) ** 3 + np.exp([1.0, 2.0])
    for _ in range(300):
        np.testing.assert_allclose(op(x).numpy(), expected, rtol=1e-14)
    assert is_planned(registry.find("plans::cubed"), x._word)


@needs_core
def test_registrations_erase_plans() -> None:
    x, a = tk.asarray([1.0, 2.0]), tnp.array([1.0, 2.0])
    for _ in range(3):
        assert (x + x).tolist() == (a + a).tolist() == [2.0, 4.0]
    handle = tk.library.register_kernel("tk::add", "cpu", lambda x1, x2: x1.clone(), allow_override=True)
    try:
        for _ in range(3):
            assert (x + x).tolist() == (a + a).tolist() == [1.0, 2.0]
    finally:
        handle.remove()
    for _ in range(3):
        assert (x + x).tolist() == (a + a).tolist() == [2.0, 4.0]


def test_modes_see_calls_that_have_plans() -> None:
    x = tk.asarray([1.0, 2.0])
    for _ in range(3):
        x + x, x[0], x.sum()
    seen: list[str] = []

    class Seeing(tk.dispatch.DispatchMode):
        def __tk_dispatch__(self, op: Any, types: Any, args: Any, kwargs: Any) -> Any:
            seen.append(op.name)
            return op(*args, **kwargs)

    with Seeing():
        x + x, x[0], x.sum()
    assert seen == ["tk::add", "tk::basic_index", "tk::sum"]


def test_changes_in_place_are_counted() -> None:
    x = tk.zeros(3)
    view = x[1:]
    for _ in range(3):
        before = x._version
        x += 1.0
        view[0] = 5.0
        x[...] = tk.ones(3)
        assert (x._version, view._version) == (before + 3, before + 3)
    p = tk.ones(3, requires_grad=True)
    q = p * x  # saves x
    x += 1.0
    with pytest.raises(RuntimeError, match="modified"):
        q.sum().backward()


def test_a_leaf_that_requires_a_gradient_is_not_changed() -> None:
    p = tk.ones(3, requires_grad=True)
    for _ in range(3):
        with pytest.raises(RuntimeError, match="leaf"):
            p += 1.0
        with pytest.raises(RuntimeError, match="leaf"):
            p[0] = 1.0
    with tk.no_grad():
        for _ in range(3):
            p += 1.0
    assert p.tolist() == [4.0, 4.0, 4.0]


def test_recorded_calls_have_the_gradients_of_unplanned_ones() -> None:
    def f(x: Any) -> Any:
        y = tk.where(x > 0, x * x, -x) / (x + 3.0) + tk.exp(x) * 2.0
        return (tk.reshape(y, (2, 2))[1] @ y.reshape((2, 2))).sum() + y.mean() + y[:2].max() + y.T[0]

    values = np.array([0.5, -1.0, 2.0, 0.25])
    for _ in range(3):
        x = tk.tensor(values, requires_grad=True)
        f(x).backward()
        assert tk.autograd.gradcheck(f, x.detach().requires_grad_())
        planned, planned_names = x.grad, [node.name() for node in _nodes(f(x).grad_fn)]
    x = tk.tensor(values, requires_grad=True)
    unplanned = _in_python(f, x)
    assert planned_names == [node.name() for node in _nodes(unplanned.grad_fn)]
    unplanned.backward()
    assert planned is not None
    assert x.grad is not None
    np.testing.assert_array_equal(planned.numpy(), x.grad.numpy())


def _nodes(root: Any) -> Iterator[Any]:
    queue = [root]
    while queue:
        node = queue.pop()
        if node is not None:
            yield node
            queue += [below for below, _ in node.next_edges]


def test_fields_can_be_deleted_without_a_crash() -> None:
    for name in ("_data", "_word", "_storage", "_autograd"):
        x = tk.asarray([1.0, 2.0])
        delattr(x, name)
        for call in (lambda x: x + 1.0, lambda x: x[0], lambda x: x.__setitem__(0, 1.0), tk.exp, tk.sum, bool, len):
            with contextlib.suppress(AttributeError, TypeError, ValueError):
                call(x)
        del x


def test_nothing_leaks() -> None:
    x, a = tk.asarray([[1.0, 2.0], [3.0, 4.0]]), tnp.asarray([[1.0, 2.0], [3.0, 4.0]])
    p = tk.asarray([1.0, 2.0], requires_grad=True)

    def calls() -> None:
        for _ in range(200):
            x + x, x * 2.0, x[0], x[0, 1:], x.sum(), x @ x, x.T, x > 1, -x, a + a, a[0], a[a > 2], a**2
            (p * p + 1.0).exp().sum().backward()
            x[0] = 1.0
            x[...] = x * 1.0
            with contextlib.suppress(ValueError):
                x + tk.ones(3)

    calls()
    gc.collect()
    before = len(gc.get_objects())
    dtypes = sys.getrefcount(np.dtype("f4"))
    calls()
    gc.collect()
    assert abs(len(gc.get_objects()) - before) < 50
    assert abs(sys.getrefcount(np.dtype("f4")) - dtypes) < 50


@needs_core
def test_classes_inherit_the_slots() -> None:
    for name in sorted(SLOT_NAMES - {"iadd", "isub", "imul", "itruediv"}):
        assert f"__{name}__" not in vars(tk.Tensor), name
        assert f"__{name}__" not in vars(tnp.ndarray), name
    assert special_methods().keys() >= {"__add__", "__radd__", "__getitem__", "__float__"}


def test_without_the_core_results_are_the_same() -> None:
    program = (
        "import tenkey as tk, tenkey.numpy as tnp, numpy as np\n"
        "r = np.random.default_rng(0).standard_normal(60).astype('f4')\n"
        "for m in (tk, tnp):\n"
        "    x = m.asarray(r)\n"
        "    for _ in range(3):\n"
        "        made = [x + x, x * 2.0, x.sum(), x.reshape((6, 10)).sum(axis=1), x[3:50:2], x.mean(), x > 0, x**2]\n"
        "        print([np.asarray(v).tobytes().hex() for v in made])\n"
    )
    texts = [
        subprocess.run([sys.executable, "-c", program], env={**os.environ, "TENKEY_COMPILED": flag}, text=True,
                       capture_output=True, check=True).stdout
        for flag in ("1", "0")
    ]  # fmt: skip
    assert texts[0] == texts[1] != ""


@pytest.mark.parametrize("module", [tk, tnp], ids=["tk", "tenkey.numpy"])
def test_parts_are_added_to_overlapping_parts(module: Any) -> None:
    """The operands count as they were, in calls that have a plan too."""
    for change in (operator.iadd, operator.isub, operator.imul):
        for target, source in ((np.s_[1:], np.s_[:-1]), (np.s_[:-1], np.s_[1:]), (np.s_[:], np.s_[:])):
            for _ in range(3):
                x, expected = module.arange(1.0, 30.0), np.arange(1.0, 30.0, dtype=module.arange(1.0).numpy().dtype)
                expected[target] = change(expected[target].copy(), expected[source].copy())
                x[target] = change(x[target], x[source])
                np.testing.assert_array_equal(np.asarray(x), expected)


@pytest.mark.parametrize("module", [tk, tnp], ids=["tk", "tenkey.numpy"])
def test_parts_are_assigned_to_overlapping_parts(module: Any) -> None:
    """NumPy 2.4 gets ``x[::2] = x[:6]`` wrong, so the core leaves arrays that share memory to Python."""
    for length in (8, 12, 64, 1000):
        for _ in range(4):
            x = module.asarray(np.arange(float(length)))
            part = x[: length // 2]
            x[::2] = part
            assert x[::2].tolist() == list(range(length // 2))
            other = module.asarray(np.arange(float(length)))
            window = other[1:]
            other[:-1] = window
            assert other.tolist() == [*range(1, length), length - 1]
