"""What is made on first use (derived operators, kernels, rules, generated code), used by eight threads at once."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.backends.cpu.thresholds import LARGE
from tenkey.dispatch import registry
from tenkey.library import scalar as s
from tests._threads import run_threads
from tests._tiers import tier

X = np.array([0.3, 0.7, 1.1])
Y = np.array([1.5, 0.4, 0.8])
_numbers = itertools.count()


@pytest.fixture
def operator() -> Iterator[Any]:
    """A new operator ``exp(x) * y``, of which nothing has been derived yet."""
    schema = f"threads::f{next(_numbers)}(Tensor x, Tensor y) -> Tensor"
    call = tk.library.pointwise(schema, scalar=lambda T: lambda x, y: s.exp(x) * y)
    yield call.operator
    registry.undefine(call.operator)


def at_once(function: Callable[[], Any], expected: Any) -> list[Any]:
    """Call the function in eight threads; the results, each of which must be as expected."""
    results: list[Any] = []
    run_threads(*[lambda: results.append(function())] * 8)
    for result in results:
        np.testing.assert_allclose(result.numpy(), expected, rtol=1e-12)
    return results


def tensors() -> tuple[tk.Tensor, tk.Tensor]:
    return tk.tensor(X), tk.tensor(Y)


def _gradient(operator: Any) -> tk.Tensor:
    x, y = tensors()
    x.requires_grad_()
    operator(x, y).sum().backward()
    assert x.grad is not None
    return x.grad


def _named_out(operator: Any) -> tk.Tensor:
    out = tk.empty(3, dtype=tk.float64)
    assert operator.registry.packet(operator.name)(*tensors(), out=out) is out
    return out


KINDS: dict[str, tuple[Callable[[Any], tk.Tensor], np.ndarray[Any, Any]]] = {
    "call": (lambda op: op(*tensors()), np.exp(X) * Y),
    "float32": (lambda op: op(*tensors()) + op(*(t.astype(tk.float32) for t in tensors())) * 0, np.exp(X) * Y),
    "vjp": (_gradient, np.exp(X) * Y),
    "jvp": (lambda op: tk.transforms.jvp(op, tensors(), tensors()[::-1])[1], np.exp(X) * Y * Y + np.exp(X) * X),
    "vmap": (lambda op: tk.transforms.vmap(op)(*tensors()), np.exp(X) * Y),
    "vmap of grad": (lambda op: tk.transforms.vmap(tk.transforms.grad(op))(*tensors()), np.exp(X) * Y),
    "jvp of vmap": (
        lambda op: tk.transforms.jvp(tk.transforms.vmap(op), tensors(), tensors())[1],
        np.exp(X) * Y * X + np.exp(X) * Y,
    ),
    "hessian": (
        lambda op: tk.transforms.hessian(lambda x: op(x, tensors()[1]).sum())(tensors()[0]),
        np.diag(np.exp(X) * Y),
    ),
    "in place": (lambda op: registry.find(f"{op.name}_")(*tensors()), np.exp(X) * Y),
    "in place, recorded": (
        lambda op: tk.transforms.grad(lambda x: registry.find(f"{op.name}_")(x * 1, tensors()[1]).sum())(tensors()[0]),
        np.exp(X) * Y,
    ),
    "out": (lambda op: registry.find(f"{op.name}.out")(*tensors(), out=tk.empty(3, dtype=tk.float64)), np.exp(X) * Y),
    "out of the packet": (_named_out, np.exp(X) * Y),
}


@pytest.mark.parametrize("kind", KINDS)
def test_derived_from_a_pointwise_operator(kind: str, operator: Any) -> None:
    use, expected = KINDS[kind]
    at_once(lambda: use(operator), expected)
    derived = [op for op in registry if op.facets.get("DerivedFrom") is operator]
    assert len({op.name for op in derived}) == len(derived)
    assert not [op for op in derived if op.name.endswith("__")]  # no second one under another name


@pytest.mark.parametrize("kind", ["vjp", "jvp", "vmap", "out"])
def test_derived_from_a_reduction(kind: str) -> None:
    call = tk.library.reduction(
        f"threads::sum_of_squares{next(_numbers)}(Tensor x, *, int[1]? axis=None, bool keepdims=False) -> Tensor",
        combine=lambda T: lambda a, b: a + b,
        identity=0.0,
        scalar=lambda T: lambda x: x * x,
    )
    uses: dict[str, tuple[Callable[[], tk.Tensor], Any]] = {
        "vjp": (lambda: tk.transforms.grad(lambda x: call(x))(tensors()[0]), 2 * X),
        "jvp": (lambda: tk.transforms.jvp(call, tensors()[:1], tensors()[1:])[1], (2 * X * Y).sum()),
        "vmap": (lambda: tk.transforms.vmap(call)(tk.tensor(np.stack([X, Y]))), [(X * X).sum(), (Y * Y).sum()]),
        "out": (lambda: registry.packet(call.operator.name)(tensors()[0], out=tk.empty((), dtype=tk.float64)), X @ X),
    }
    use, expected = uses[kind]
    at_once(use, expected)
    registry.undefine(call.operator)


@pytest.mark.parametrize("kind", ["vjp", "jvp", "vmap"])
def test_derived_from_a_custom_operator(kind: str) -> None:
    name = f"threads::square{next(_numbers)}"
    operator = tk.library.custom_op(name, lambda x: x * x, mutates_args=(), schema="(Tensor x) -> Tensor")

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    operator.register_autograd(lambda ctx, g: 2 * g * ctx.saved_tensors[0], setup_context=keep)
    operator.register_jvp(lambda ctx, t: 2 * t * ctx.saved_tensors[0], setup_context=keep)
    uses: dict[str, tuple[Callable[[], tk.Tensor], Any]] = {
        "vjp": (lambda: _gradient(lambda x, y: operator(x)), 2 * X),
        "jvp": (lambda: tk.transforms.jvp(operator, tensors()[:1], tensors()[1:])[1], 2 * X * Y),
        "vmap": (lambda: tk.transforms.vmap(operator)(tensors()[0]), X * X),
    }
    use, expected = uses[kind]
    at_once(use, expected)
    registry.undefine(operator.operator)


def test_named_overloads_only() -> None:
    name = f"threads::named{next(_numbers)}"
    calls = [
        tk.library.pointwise(f"{name}.{overload}(Tensor x, {kind} y) -> Tensor", scalar=lambda T: lambda x, y: x * y)
        for overload, kind in (("tensor", "Tensor"), ("scalar", "Scalar"))
    ]
    results = at_once(lambda: getattr(tk.ops.threads, f"{name[9:]}_")(*tensors()), X * Y)
    assert len(results) == 8
    assert registry.packet(f"{name}_").overloads() == ["tensor", "scalar"]
    for call in calls:
        registry.undefine(call.operator)


def test_compiled_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operator: Any) -> None:
    """Two operators of the same expression share a module, which is complete before a second thread sees it."""
    monkeypatch.setenv("TENKEY_COMPILE", "on")
    monkeypatch.setenv("TENKEY_CACHE_DIR", str(tmp_path))
    again = tk.library.pointwise(
        f"threads::f{next(_numbers)}(Tensor x, Tensor y) -> Tensor", scalar=lambda T: lambda x, y: s.exp(x) * y
    )
    x = np.linspace(0, 1, LARGE)
    uses = [lambda op=op: op(tk.tensor(x), tk.tensor(x)) for op in (operator, again)]
    results: list[Any] = []
    run_threads(*[lambda use=use: results.append(use()) for use in uses * 4])
    for result in results:
        np.testing.assert_allclose(result.numpy(), np.exp(x) * x, rtol=1e-14)
    for op in (operator, again.operator):
        programs = op.facets["Pointwise"].programs.values()
        assert [program.compiled for program in programs] == [True]
    registry.undefine(again.operator)


_BUILT_IN = """
import sys
import numpy as np
import tenkey as tk
from tenkey.dispatch import registry
from tests._threads import run_threads

def operands(operator):
    needed = [a for a in operator.schema.arguments if not a.kwarg_only and not a.has_default]
    return [tk.tensor(np.linspace(0.2, 0.8, 3)) for a in needed] if all(a.type.is_tensor_like for a in needed) else []

STEP = int(sys.argv[1])
operators = [op for op in registry if "Pointwise" in op.facets or "Reduce" in op.facets][::STEP]
used = 0
for operator in operators:
    values = operands(operator)
    try:
        plain = operator(*values)
    except (TypeError, ValueError):
        continue
    if not values or plain.dtype.kind != "f":
        continue
    used += 1
    first, *others = values

    def sum_of(x):
        return operator(x, *others).sum()

    uses = [
        lambda: tk.transforms.jvp(operator, tuple(values), tuple(values)),
        lambda: tk.transforms.hessian(sum_of)(first),
        lambda: tk.transforms.vmap(tk.transforms.grad(sum_of))(tk.stack([first, first])),
        lambda: registry.packet(operator.schema.name)(*values, out=tk.empty_like(plain)),
    ]
    if "Pointwise" in operator.facets and plain.shape == first.shape and registry.derive(f"{operator.schema.name}_"):
        uses.append(lambda: registry.find(f"{operator.schema.name}_")(first.clone(), *others))
    for use in uses:
        run_threads(*[use] * 8)
print(used > 80 // STEP)
"""


def test_built_in_operators() -> None:
    """In a new process, so that nothing has been used before."""
    command = [sys.executable, "-c", _BUILT_IN, str(tier(10, 1))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
    assert (done.stdout, done.stderr) == ("True\n", "")
