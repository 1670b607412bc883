"""inference_mode: the rules of PyTorch's InferenceMode (its RFC 0011), with the values that PyTorch 2.13 gives."""

from __future__ import annotations

import asyncio
import copy
import pickle
import threading
from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey import Tensor


def leaf(*values: float) -> Tensor:
    return tk.tensor(list(values) or [1.0, 2.0, 3.0], requires_grad=True)


@pytest.fixture
def made_inside() -> Tensor:
    with tk.inference_mode():
        return tk.ones(3)


# ---- inside


def test_nothing_is_recorded_and_results_are_marked() -> None:
    x = leaf()
    with tk.inference_mode():
        assert tk.is_inference_mode_enabled()
        assert not tk.is_grad_enabled()
        y = x * 2.0
        results = [y, tk.exp(y), y @ y, tk.sum(y), y.clone(), tk.zeros(2), tk.where(y > 2.0, y, x), *tk.unstack(y)]
        results += [tk.from_dlpack(np.ones(2)), tk.from_dlpack(np.ones(2), copy=True)]
        results += [tk.asarray([1.0]), tk.tensor(1), tk.asarray(np.ones(2)), tk.random.normal((2,)), tk.softmax(y)]
    assert not tk.is_inference_mode_enabled()
    assert tk.is_grad_enabled()
    for one in results:
        assert one.is_inference
        assert one.is_inference() is True
        assert not one.requires_grad
        assert one.is_leaf
    assert repr(y.is_inference) == "True"
    assert not x.is_inference
    assert x.is_inference() is False


def test_a_tensor_from_outside_stays_what_it_is() -> None:
    x = tk.ones(2)
    with tk.inference_mode():
        same, copied = tk.from_dlpack(x), tk.from_dlpack(x, copy=True)
    assert not same.is_inference
    assert copied.is_inference
    assert not tk.from_dlpack(np.ones(2)).is_inference


def test_a_tensor_made_inside_may_require_a_gradient() -> None:
    with tk.inference_mode():
        b = tk.tensor([1.0, 1.0], requires_grad=True)
        assert b.requires_grad
        assert not (b * 2.0).requires_grad
        c = tk.zeros(2).requires_grad_()
    assert b.is_inference
    assert c.requires_grad
    (b + 2.0).sum().backward()  # addition saves nothing
    assert b.grad is not None
    assert b.grad.tolist() == [1.0, 1.0]
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        b * b


def test_views_of_normal_tensors_stay_normal() -> None:
    x = leaf()
    n = tk.zeros(3)
    with tk.inference_mode():
        assert not x[0:2].is_inference
        assert not x.detach().is_inference
        assert not tk.reshape(n, (3, 1)).is_inference
        assert tk.shares_storage(n[1:], n)
        n[1:].add_(1.0)  # a normal tensor can be changed
        n.add_(1.0)
        assert n._version == 2
        x.add_(1.0)  # a leaf too: nothing is recorded
    assert n.tolist() == [1.0, 2.0, 2.0]
    assert not n.is_inference
    assert x.tolist() == [2.0, 3.0, 4.0]
    assert x.requires_grad


def test_what_is_returned_as_it_came_is_not_marked() -> None:
    x = tk.ones(2)
    with tk.inference_mode():
        assert tk.asarray(x) is x
        assert not x.astype(tk.float32, copy=False).is_inference
    assert not x.is_inference


def test_enable_grad_inside_records_nothing() -> None:
    x = leaf()
    with tk.inference_mode(), tk.enable_grad():
        y = x * 2.0
        assert tk.is_grad_enabled()
    assert not y.requires_grad
    assert y.is_inference
    assert y.grad_fn is None


def test_the_mode_off_inside_of_the_mode() -> None:
    x = leaf()
    with tk.inference_mode():
        with tk.inference_mode(False):
            assert not tk.is_inference_mode_enabled()
            assert (x * 2.0).requires_grad
            assert not tk.ones(1).is_inference
        assert tk.ones(1).is_inference
    with tk.no_grad(), tk.inference_mode(False):
        assert tk.is_grad_enabled()
    with tk.inference_mode(mode=True), tk.inference_mode(mode=True):
        assert tk.ones(1).is_inference


def test_backward_inside() -> None:
    x = leaf()
    loss = (x * x).sum()
    with tk.inference_mode():
        loss.backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 4.0, 6.0]


# ---- outside


def test_normal_results_outside(made_inside: Tensor) -> None:
    x = leaf()
    assert not (made_inside + 1.0).is_inference
    assert not made_inside.clone().is_inference
    assert not copy.deepcopy(made_inside).is_inference
    assert not pickle.loads(pickle.dumps(made_inside)).is_inference
    assert made_inside[0:1].is_inference
    assert made_inside.detach().is_inference
    y = x + made_inside
    assert y.requires_grad
    assert not y.is_inference
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [1.0, 1.0, 1.0]
    n = tk.zeros(3)
    n[0] = made_inside[0]
    n.add_(made_inside)
    assert n.tolist() == [2.0, 1.0, 1.0]
    assert not n.is_inference


SAVING: list[Callable[[Tensor, Tensor], Any]] = [
    lambda x, a: x * a,
    lambda x, a: x @ a,
    lambda x, a: tk.linalg.vector_norm(x * a),
    lambda x, a: (x * 1.0).mul_(a),
    lambda x, a: tk.where(a > 0.0, x, x) * a,
    lambda x, a: tk.softmax(x, axis=0) * a,
]


@pytest.mark.parametrize("program", SAVING)
def test_they_cannot_be_saved(made_inside: Tensor, program: Callable[[Tensor, Tensor], Any]) -> None:
    x = leaf()
    with pytest.raises(RuntimeError, match=r"Inference tensors cannot be saved for backward.*clone\(\)"):
        program(x, made_inside)
    program(x, made_inside.clone()).sum().backward()  # the remedy
    assert x.grad is not None
    with tk.no_grad():
        program(x, made_inside)


def test_a_refused_in_place_call_changes_nothing(made_inside: Tensor) -> None:
    y = leaf() * 1.0
    with pytest.raises(RuntimeError, match="cannot be saved"):
        y.mul_(made_inside)
    assert y.tolist() == [1.0, 2.0, 3.0]
    assert y._version == 0


def test_they_cannot_be_saved_by_a_function(made_inside: Tensor) -> None:
    class Product(tk.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, a: Tensor) -> Tensor:
            ctx.save_for_backward(x, a)
            return x * a

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor]:
            x, a = ctx.saved_tensors
            return g * a, g * x

    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        Product.apply(leaf(), made_inside)
    with tk.inference_mode():
        assert Product.apply(leaf(), made_inside).is_inference


def test_a_function_of_one_inference_leaf() -> None:
    class Square(tk.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            return g * ctx.saved_tensors[0] * 2.0

    with tk.inference_mode():
        b = tk.tensor([1.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        Square.apply(b)


def test_they_cannot_be_saved_by_a_custom_operator(made_inside: Tensor) -> None:
    @tk.library.custom_op("inference_tests::product", mutates_args=())
    def product(x: Tensor, a: Tensor) -> Tensor:
        return x * a

    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(inputs[1])

    product.register_autograd(lambda ctx, g: (g * ctx.saved_tensors[0], None), setup_context=setup)
    with pytest.raises(RuntimeError, match="Inference tensors cannot be saved for backward"):
        product(leaf(), made_inside)
    with tk.inference_mode():
        assert product(leaf(), made_inside).is_inference


IN_PLACE: list[Callable[[Tensor], Any]] = [
    lambda a: a.add_(1.0),
    lambda a: a[0:2].mul_(2.0),
    lambda a: a.__setitem__(0, 5.0),
    lambda a: a.__iadd__(1.0),
    lambda a: a.copy_(tk.zeros(3)),
    lambda a: tk.ops.tk.add.out(tk.zeros(3), 1.0, out=a),
]


@pytest.mark.parametrize("program", IN_PLACE)
def test_they_cannot_be_changed_in_place(made_inside: Tensor, program: Callable[[Tensor], Any]) -> None:
    for context in (tk.no_grad, tk.enable_grad):
        with context(), pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
            program(made_inside)
    assert made_inside.tolist() == [1.0, 1.0, 1.0]
    with tk.inference_mode():
        program(made_inside)


def test_other_refusals(made_inside: Tensor) -> None:
    with pytest.raises(RuntimeError, match="Setting requires_grad=True on inference tensor outside InferenceMode"):
        made_inside.requires_grad_()
    with pytest.raises(RuntimeError, match="Setting requires_grad=True on inference tensor outside InferenceMode"):
        made_inside.requires_grad = True
    with pytest.raises(RuntimeError, match=r"\[_version\] Inference tensors do not track version counter: .*clone\(\)"):
        made_inside._version  # noqa: B018  # reading it is what raises
    made_inside.requires_grad_(False)
    assert not made_inside.requires_grad
    for wrong in ("yes", 1, None, int):
        with pytest.raises(TypeError, match="inference_mode"):
            tk.inference_mode(wrong)
    assert not tk.is_inference_mode_enabled()


# ---- where it is on


def test_as_a_decorator() -> None:
    @tk.inference_mode
    def bare() -> Any:
        return tk.ones(1).is_inference()

    @tk.inference_mode()
    def called() -> Any:
        return tk.ones(1).is_inference()

    @tk.inference_mode(False)
    def off() -> Any:
        return tk.ones(1).is_inference()

    assert (bare(), called(), off()) == (True, True, False)
    with tk.inference_mode():
        assert off() is False
        assert tk.is_inference_mode_enabled()


def test_generators_and_tasks() -> None:
    @tk.inference_mode()
    def generator() -> Generator[bool, None, None]:
        yield tk.is_inference_mode_enabled()
        yield tk.is_inference_mode_enabled()

    for inside in generator():
        assert inside
        assert not tk.is_inference_mode_enabled()

    async def work(on: bool) -> list[bool]:
        seen = []
        with tk.inference_mode(on):
            for _ in range(3):
                await asyncio.sleep(0)
                seen.append(tk.ones(1).is_inference())
        return seen

    async def both() -> list[list[bool]]:
        return list(await asyncio.gather(work(True), work(False)))

    assert asyncio.run(both()) == [[True] * 3, [False] * 3]


def test_other_threads_are_not_in_the_mode() -> None:
    seen: list[bool] = []
    with tk.inference_mode():
        thread = threading.Thread(target=lambda: seen.append(tk.ones(1).is_inference()))
        thread.start()
        thread.join()
    assert seen == [False]


def test_an_exception_ends_the_mode() -> None:
    with pytest.raises(KeyError), tk.inference_mode():
        raise KeyError
    assert not tk.is_inference_mode_enabled()
    assert tk.is_grad_enabled()


def test_with_transforms(made_inside: Tensor) -> None:
    double = tk.transforms.vmap(lambda row: row * 2.0)
    with tk.inference_mode():
        assert double(tk.ones((2, 3))).is_inference
    assert not double(tk.reshape(made_inside, (3, 1))).is_inference
    assert not tk.transforms.jvp(lambda x: x * 2.0, (tk.ones(2),), (tk.ones(2),))[1].is_inference


def test_on_the_meta_device() -> None:
    with tk.inference_mode():
        m = tk.ones(2, device="meta")
        assert (m + 1.0).is_inference
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor"):
        m.add_(1.0)


def test_the_keys_tell() -> None:
    with tk.inference_mode():
        y = tk.ones(1)
    assert y.keyset.has(tk.dispatch.DispatchKey.Inference)
    assert "Inference" in str(tk.dispatch.explain(tk.add, y, y))


class _Cube(tk.autograd.Function):
    @staticmethod
    def forward(x: Any) -> Any:
        return x**3

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return 3 * ctx.saved_tensors[0] ** 2 * g


@pytest.mark.parametrize("inside", [True, False])
@pytest.mark.parametrize("function", [lambda x: x**3, lambda x: tk.sort(x) ** 3, _Cube.apply])
def test_derivatives_of_functions(made_inside: Tensor, function: Any, inside: bool) -> None:
    """Note [Derivatives in inference mode]; the inputs and the factor ``c`` are inference tensors."""
    t = tk.transforms
    with tk.inference_mode():
        c = made_inside * tk.asarray([1.0, 2.0, 4.0])
    with tk.inference_mode(), tk.inference_mode(inside):
        x = tk.asarray([1.0, 2.0, 3.0])

        def scaled(x: Tensor) -> Tensor:
            return tk.sum(function(x) * c)

        first = (3 * x**2 * c).tolist()
        for given in (x, c):
            slope = (3 * given**2 * c).tolist()
            assert t.grad(scaled)(given).tolist() == slope
            assert t.jacrev(lambda x: function(x) * c)(given).tolist() == np.diag(slope).tolist()
            output, pull = t.vjp(scaled, given)
            assert pull(tk.ones_like(output))[0].tolist() == slope
            assert t.jvp(scaled, (given,), (x,))[1].item() == pytest.approx(np.dot(slope, x.tolist()))
            assert t.linearize(scaled, given)[1](x).item() == pytest.approx(np.dot(slope, x.tolist()))
            assert t.vmap(t.grad(scaled))(tk.stack([given, given])).tolist() == [slope, slope]
            assert t.hessian(scaled)(given).tolist() == np.diag((6 * given * c).tolist()).tolist()
        assert first == t.grad(scaled)(x).tolist()
        assert not t.grad(scaled)(c).is_inference
    assert pull(tk.ones_like(output))[0].tolist() == slope


def test_a_derivative_may_change_what_its_mode_may(made_inside: Tensor) -> None:
    def counted(x: Tensor) -> Tensor:
        made_inside.add_(1.0)
        return tk.sum(x * x)

    before = made_inside.tolist()
    with tk.inference_mode():
        assert tk.transforms.grad(counted)(tk.asarray([2.0])).tolist() == [4.0]
    assert made_inside.tolist() == [x + 1 for x in before]
    with pytest.raises(RuntimeError, match="Inplace update to inference tensor outside InferenceMode"):
        tk.transforms.grad(counted)(tk.asarray([2.0]))


def test_gradcheck_in_inference_mode() -> None:
    x = tk.tensor([1.0, 2.0], dtype=tk.float64, requires_grad=True)
    with tk.inference_mode():
        assert tk.autograd.gradcheck(lambda x: x**3, (x,), check_forward_ad=True)
        assert tk.autograd.gradgradcheck(lambda x: x**3, (x,), check_fwd_over_rev=True)
