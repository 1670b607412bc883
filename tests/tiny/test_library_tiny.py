"""tenkey.library in one sitting: an operator is defined, gets kernels and a gradient, and goes away again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.dispatch.errors import MissingKernelError, RegistrationError
from tenkey.dispatch.registry import registry
from tenkey.library import Library

NAMESPACE = "library_tiny"


@pytest.fixture(autouse=True)
def _registry_as_before() -> Iterator[None]:
    before = set(registry.operators)
    yield
    for name in set(registry.operators) - before:
        if name.startswith(NAMESPACE) and name in registry.operators:  # a derivative goes with its operator
            registry.undefine(registry.operators[name], keep_kernels=False)


def test_library_defines_and_takes_back() -> None:
    before = set(registry.operators)
    with Library(NAMESPACE, "DEF") as library:
        library.define("shift(Tensor x, float by=1.0) -> Tensor")
        library.impl("shift", lambda x, by: x + by, "cpu")
        assert tk.ops.library_tiny.shift(tk.asarray([1.0, 2.0])).tolist() == [2.0, 3.0]
        assert tk.ops.library_tiny.shift(tk.asarray([1.0]), 5).tolist() == [6.0]
    assert set(registry.operators) == before
    with pytest.raises(AttributeError, match="no operators in a namespace 'library_tiny'"):
        _ = tk.ops.library_tiny.shift


def test_a_namespace_has_one_owner() -> None:
    with Library(NAMESPACE, "DEF"), pytest.raises(RegistrationError, match="owned by a Library") as caught:
        Library(NAMESPACE, "DEF")
    assert str(caught.value).count("test_library_tiny.py:") == 2
    Library(NAMESPACE, "DEF").remove()  # it is free again


def test_missing_kernel_names_the_remedy() -> None:
    with Library(NAMESPACE, "DEF") as library:
        library.define("shift(Tensor x) -> Tensor")
        library.impl("shift", lambda x: x + 1, "cpu")
        with pytest.raises(MissingKernelError, match="register_fake") as caught:
            tk.ops.library_tiny.shift(tk.empty(2, device="meta"))
    assert "no kernel for meta" in str(caught.value)
    assert "\n  cpu: " in str(caught.value)


def test_custom_op_with_gradient() -> None:
    @tk.library.custom_op(f"{NAMESPACE}::cube", mutates_args=())
    def cube(x: tk.Tensor) -> tk.Tensor:
        return x * x * x

    def keep(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[0])

    cube.register_autograd(lambda ctx, g: 3 * g * ctx.saved_tensors[0] ** 2, setup_context=keep)
    x = tk.tensor([1.0, -2.0], requires_grad=True)
    tk.sum(cube(x)).backward()
    assert x.grad is not None
    assert x.grad.tolist() == [3.0, 12.0]


def test_pointwise_from_one_expression() -> None:
    scalar = tk.library.scalar
    softplus = tk.library.pointwise(
        f"{NAMESPACE}::softplus(Tensor x) -> Tensor", scalar=lambda T: lambda x: scalar.log1p(scalar.exp(x))
    )
    values = np.linspace(-2, 2, 7)
    x = tk.tensor(values, requires_grad=True)
    out = softplus(x)
    np.testing.assert_allclose(out.detach().numpy(), np.logaddexp(0, values), rtol=1e-14)
    tk.sum(out).backward()
    assert x.grad is not None
    np.testing.assert_allclose(x.grad.numpy(), 1 / (1 + np.exp(-values)), rtol=1e-14)


def test_a_wrong_scalar_function_leaves_nothing() -> None:
    before = set(registry.operators)
    with pytest.raises(TypeError, match=r"\[library_tiny::wrong\] the scalar function takes \(x\)"):
        tk.library.pointwise(f"{NAMESPACE}::wrong(Tensor x, Tensor y) -> Tensor", scalar=lambda T: lambda x: x)
    assert set(registry.operators) == before


def test_infer_schema() -> None:
    def scale(x: tk.Tensor, factor: float = 2.0, *, bias: tk.Tensor | None = None) -> tk.Tensor:
        raise NotImplementedError

    assert tk.library.infer_schema(scale) == "(Tensor x, float factor=2.0, *, Tensor? bias=None) -> Tensor"
