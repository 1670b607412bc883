"""Operators that are wrong in one way each, and the row of ``opcheck`` that must say so."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import tenkey as tk
from tenkey.autograd.function import once_differentiable
from tenkey.core.tensor import Tensor

from ._opcheck import X, Y, sample

__all__ = ["WRONG", "Wrong"]


class Wrong(NamedTuple):
    """``make`` registers the operator; ``args`` are its sample; ``row`` must fail, with all of ``says`` in its text."""

    name: str
    make: Callable[[], Any]
    args: tuple[Any, ...]
    row: str
    says: tuple[str, ...]


WRONG: list[Wrong] = []


def wrong(row: str, *says: str, args: tuple[Any, ...] = (X,)) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Put an operator into the table."""

    def add(make: Callable[[], Any]) -> Callable[[], Any]:
        WRONG.append(Wrong(make.__name__, make, args, row, says))
        return make

    return add


def _define(
    name: str, function: Callable[..., Any], *, schema: str | None = None, mutates: Any = (), fake: Any = "like"
) -> Any:
    operator = tk.library.custom_op(f"wrong::{name}", function, mutates_args=mutates, schema=schema)
    if fake == "like":
        operator.register_fake(lambda x, *args: tk.empty(x.shape, dtype=x.dtype, device=x.device))
    elif fake is not None:
        operator.register_fake(fake)
    return operator


def _save(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.save_for_backward(*[value for value in inputs if isinstance(value, Tensor)])


def _np(function: Callable[..., Any]) -> Callable[..., Tensor]:
    """A kernel of NumPy arrays."""
    return lambda *tensors: tk.asarray(np.ascontiguousarray(function(*[t.numpy() for t in tensors])))


ONE = "(Tensor x) -> Tensor"
TWO = "(Tensor x, Tensor y) -> Tensor"


# ---- schema


@wrong("schema", "argument 'x' was changed", "at index (0, 0): -0.9", "mutates_args")
def undeclared_mutation() -> Any:
    def kernel(x: Tensor) -> Tensor:
        x.numpy()[...] *= 2
        return x + 1

    return _define("undeclared_mutation", kernel, schema=ONE)


@wrong("schema", "argument 'x' was written to in place", "mutates_args")
def undeclared_mutation_without_effect() -> Any:
    def kernel(x: Tensor) -> Tensor:
        x.mul_(1.0)
        return x + 1

    return _define("undeclared_mutation_without_effect", kernel, schema=ONE)


@wrong("schema", "argument 'xs[1]' was changed", "mutates_args", args=([X, Y],))
def mutation_of_a_list_element() -> Any:
    def kernel(xs: list[Tensor]) -> Tensor:
        xs[1].numpy()[0, 0] = 5.0
        return xs[0] + xs[1]

    fake = lambda xs: tk.empty(xs[0].shape, dtype=xs[0].dtype, device="meta")  # noqa: E731
    return _define("mutation_of_a_list_element", kernel, schema="(Tensor[] xs) -> Tensor", fake=fake)


@wrong("schema", "list 'xs'", "copy", args=([X, Y],))
def mutation_of_the_list() -> Any:
    def kernel(xs: list[Tensor]) -> Tensor:
        return xs[0] + xs.pop()

    fake = lambda xs: tk.empty(xs[0].shape, dtype=xs[0].dtype, device="meta")  # noqa: E731
    return _define("mutation_of_the_list", kernel, schema="(Tensor[] xs) -> Tensor", fake=fake)


@wrong("schema", "'x'", "clone()")
def output_is_input() -> Any:
    return _define("output_is_input", lambda x: x, schema=ONE)


@wrong("schema", "'x'", "clone()")
def output_is_view() -> Any:
    def fake(x: Tensor) -> Tensor:
        return tk.empty(x.shape[1:], dtype=x.dtype, device="meta")

    return _define("output_is_view", lambda x: x[0], schema=ONE, fake=fake)


@wrong("schema", "two calls returned the same memory", "clone()")
def result_from_a_cache() -> Any:
    made: dict[bytes, Tensor] = {}

    def kernel(x: Tensor) -> Tensor:
        return made.setdefault(x.numpy().tobytes(), x + 1)

    return _define("result_from_a_cache", kernel, schema=ONE)


@wrong("schema", "two calls returned the same memory", "clone()")
def result_from_a_cache_of_tensors() -> Any:
    made: dict[int, tuple[Tensor, Tensor]] = {}

    def kernel(x: Tensor) -> Tensor:
        return made.setdefault(id(x), (x + 1, x))[0]

    return _define("result_from_a_cache_of_tensors", kernel, schema=ONE)


@wrong("schema", "two calls returned the same memory", "clone()")
def result_in_a_buffer() -> Any:
    buffers: dict[Any, np.ndarray] = {}

    def kernel(x: Tensor) -> Tensor:
        buffer = buffers.setdefault((x.shape, x.dtype), np.empty(x.shape, x.dtype))
        np.add(x.numpy(), 1, out=buffer)
        return tk.asarray(buffer)

    return _define("result_in_a_buffer", kernel, schema=ONE)


@wrong("schema", "share", "clone()")
def outputs_share_memory() -> Any:
    def kernel(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x + 1
        return y, tk.reshape(y, (-1,))

    def fake(x: Tensor) -> tuple[Tensor, Tensor]:
        return tuple(tk.empty(s, dtype=x.dtype, device="meta") for s in (x.shape, (x.size,)))  # type: ignore[return-value]

    return _define("outputs_share_memory", kernel, schema="(Tensor x) -> (Tensor, Tensor)", fake=fake)


@wrong("schema", "ndarray", "schema", "Tensor")
def returns_an_array() -> Any:
    return _define("returns_an_array", lambda x: np.exp(x.numpy()), schema=ONE)


@wrong("schema", "float", "schema", "int")
def returns_another_type() -> Any:
    return _define("returns_another_type", lambda x: 2.5, schema="(Tensor x) -> int", fake=lambda x: 2)


@wrong("schema", "2 results", "a tuple")
def returns_too_little() -> Any:
    return _define("returns_too_little", lambda x: x + 1, schema="(Tensor x) -> (Tensor, Tensor)", fake=None)


@wrong("schema", "ZeroDivisionError", "_wrong_operators.py:")
def raises() -> Any:
    def kernel(x: Tensor) -> Tensor:
        return x * (1 // 0)

    return _define("raises", kernel, schema=ONE)


# ---- fake


@wrong("fake", "shape (3, 4)", "(4, 3)", "make the fake return")
def wrong_fake_shape() -> Any:
    def fake(x: Tensor) -> Tensor:
        return tk.empty(x.shape[::-1], dtype=x.dtype, device="meta")

    return _define("wrong_fake_shape", lambda x: x + 1, schema=ONE, fake=fake)


@wrong("fake", "dtype float32", "float64", "make the fake return")
def wrong_fake_dtype() -> Any:
    def fake(x: Tensor) -> Tensor:
        return tk.empty(x.shape, dtype="float64", device="meta")

    return _define("wrong_fake_dtype", lambda x: x + 1, schema=ONE, fake=fake)


@wrong("fake", "dtype float64", "float32 in the fake")
def returns_a_wrong_dtype() -> Any:
    return _define("returns_a_wrong_dtype", _np(lambda x: x.astype("float64")), schema=ONE)


@wrong("fake", "strides (4, 1)", "(1, 3)")
def wrong_fake_strides() -> Any:
    def fake(x: Tensor) -> Tensor:
        return tk.permute_dims(tk.empty(x.shape[::-1], dtype=x.dtype, device="meta"), (1, 0))

    return _define("wrong_fake_strides", lambda x: x + 1, schema=ONE, fake=fake)


@wrong("fake", "with other sizes", "not the sample's numbers")
def fake_of_one_size() -> Any:
    def fake(x: Tensor) -> Tensor:
        return tk.empty((3, 4), dtype=x.dtype, device="meta")

    return _define("fake_of_one_size", lambda x: x + 1, schema=ONE, fake=fake)


@wrong("fake", "register_fake('wrong::missing_fake')", "tk.empty(shape")
def missing_fake() -> Any:
    return _define("missing_fake", _np(np.cos), schema=ONE, fake=None)


@wrong("fake", "device", "cpu", "device=x.device")
def fake_on_the_cpu() -> Any:
    return _define("fake_on_the_cpu", lambda x: x + 1, schema=ONE, fake=lambda x: tk.empty(x.shape, dtype=x.dtype))


@wrong("fake", "AttributeError", "register_fake")
def fake_that_raises() -> Any:
    return _define("fake_that_raises", lambda x: x + 1, schema=ONE, fake=lambda x: x.no_such_thing)


# ---- autograd


@wrong("autograd", "'x'", "silently lost", "register_autograd")
def gradient_detached_inside() -> Any:
    return tk.library.composite("wrong::gradient_detached_inside(Tensor x) -> Tensor")(lambda x: tk.sin(x.detach()) * 2)


@wrong("autograd", "'y'", "silently lost", args=(X, Y))
def gradient_of_one_detached_inside() -> Any:
    return tk.library.composite("wrong::gradient_of_one_detached_inside(Tensor x, Tensor y) -> Tensor")(
        lambda x, y: tk.sin(x) * y.detach()
    )


@wrong("autograd", "although no argument does", "detach()")
def result_with_a_history() -> Any:
    weight = tk.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    return tk.library.composite("wrong::result_with_a_history(Tensor x) -> Tensor")(
        lambda x: x * weight.to(device=x.device)
    )


@wrong("autograd", "KeyError", "setup_context")
def setup_context_that_raises() -> Any:
    operator = _define("setup_context_that_raises", _np(np.sin), schema=ONE)
    operator.register_autograd(lambda ctx, g: g, setup_context=lambda ctx, inputs, output: {}["weights"])
    return operator


# ---- gradient


def _unary(name: str, backward: Callable[..., Any], function: Any = np.sin) -> Any:
    operator = _define(name, _np(function), schema=ONE)
    operator.register_autograd(backward, setup_context=_save)
    return operator


def _product(name: str, backward: Callable[..., Any]) -> Any:
    def fake(x: Tensor, y: Tensor) -> Tensor:
        return tk.empty(np.broadcast_shapes(x.shape, y.shape), dtype=x.dtype, device="meta")

    operator = _define(name, _np(np.multiply), schema=TWO, fake=fake)
    operator.register_autograd(backward, setup_context=_save)
    return operator


@wrong("gradient", "'x'", "2 times what it should be", "Correct what backward returns")
def wrong_gradient() -> Any:
    return _unary("wrong_gradient", lambda ctx, g: g * 2 * tk.cos(ctx.saved_tensors[0]))


@wrong("gradient", "'x'", "Correct what backward returns", args=(tk.ones(3),))
def gradient_that_is_right_at_the_sample() -> Any:
    return _unary("gradient_that_is_right_at_the_sample", lambda ctx, g: g * 3 * ctx.saved_tensors[0], lambda x: x**3)


@wrong("gradient", "'y'", "Correct what backward returns for 'y'", args=(X, Y))
def wrong_gradient_of_one() -> Any:
    def backward(ctx: Any, g: Tensor) -> Any:
        _, y = ctx.saved_tensors
        return g * y, g * y

    return _product("wrong_gradient_of_one", backward)


@wrong("gradient", "'y'", "broadcasts", args=(X, Y))
def wrong_gradient_when_broadcasting() -> Any:
    def backward(ctx: Any, g: Tensor) -> Any:
        x, y = ctx.saved_tensors
        return g * y, (g * x if x.shape == y.shape else g * x / 2)

    return _product("wrong_gradient_when_broadcasting", backward)


@wrong("gradient", "'x'", "when only 'x' requires it", args=(X, Y))
def wrong_gradient_when_one_is_wanted() -> Any:
    def backward(ctx: Any, g: Tensor) -> Any:
        x, y = ctx.saved_tensors
        return (g * y if all(ctx.needs_input_grad) else g), g * x

    return _product("wrong_gradient_when_one_is_wanted", backward)


@wrong("gradient", "'y'", "returns None", args=(X, Y))
def gradient_of_one_missing() -> Any:
    return _product("gradient_of_one_missing", lambda ctx, g: (g * ctx.saved_tensors[1], None))


@wrong("gradient", "backward", "IndexError", "register_autograd")
def backward_that_raises() -> Any:
    return _unary("backward_that_raises", lambda ctx, g: g * ctx.saved_tensors[1])


@wrong("gradient", "conjugate", "tk.conj", args=(tk.asarray(np.array([0.4 + 0.3j, -0.8 + 1.1j], "complex64")),))
def complex_gradient_not_conjugated() -> Any:
    return _unary("complex_gradient_not_conjugated", lambda ctx, g: g * tk.cos(ctx.saved_tensors[0]))


@wrong("gradient", "in place of 'x' after the call silently changes the gradient", "ctx.save_for_backward")
def input_kept_on_the_context() -> Any:
    def keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.x = inputs[0]

    operator = _define("input_kept_on_the_context", _np(np.sin), schema=ONE)
    operator.register_autograd(lambda ctx, g: g * tk.cos(ctx.x), setup_context=keep)
    return operator


@wrong("gradient", "in place of 'y' after the call silently changes the gradient", "keep a copy", args=(X, Y))
def array_of_an_input_kept_on_the_context() -> Any:
    def keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        ctx.save_for_backward(inputs[0])
        ctx.y = inputs[1].detach().numpy()

    def backward(ctx: Any, g: Tensor) -> Any:
        return g * tk.asarray(ctx.y), g * ctx.saved_tensors[0]

    operator = _define("array_of_an_input_kept_on_the_context", _np(np.multiply), schema=TWO)
    operator.register_autograd(once_differentiable(backward), setup_context=keep)
    return operator


# ---- second order


@wrong("second order", "silently lost", "detach()")
def second_order_detached() -> Any:
    return _unary("second_order_detached", lambda ctx, g: g * tk.cos(ctx.saved_tensors[0].detach()))


@wrong("second order", "second derivative is wrong", "once_differentiable")
def wrong_second_order() -> Any:
    cos = _unary("wrong_second_order_cos", lambda ctx, g: g * tk.sin(ctx.saved_tensors[0]), np.cos)
    return _unary("wrong_second_order", lambda ctx, g: g * cos(ctx.saved_tensors[0]))


# ---- forward mode


def _with_jvp(name: str, jvp: Callable[..., Any], schema: str = ONE) -> Any:
    if schema == ONE:
        operator = _unary(name, lambda ctx, g: g * tk.cos(ctx.saved_tensors[0]))
    else:
        operator = _product(name, lambda ctx, g: (g * ctx.saved_tensors[1], g * ctx.saved_tensors[0]))
    operator.register_jvp(jvp, setup_context=_save)
    return operator


@wrong("forward mode", "tangent of the result is wrong", "register_jvp")
def wrong_jvp() -> Any:
    return _with_jvp("wrong_jvp", lambda ctx, t: t * tk.sin(ctx.saved_tensors[0]))


@wrong("forward mode", "when only", "has a tangent", "register_jvp", args=(X, Y))
def wrong_jvp_for_one_tangent() -> Any:
    def jvp(ctx: Any, s: Any, t: Any) -> Any:
        x, y = ctx.saved_tensors
        if not tk.any(s != 0) or not tk.any(t != 0):
            return x * 0
        return s * y + x * t

    return _with_jvp("wrong_jvp_for_one_tangent", jvp, TWO)


@wrong("forward mode", "disagree", "register_jvp")
def inexact_jvp() -> Any:
    return _with_jvp("inexact_jvp", lambda ctx, t: t * tk.cos(ctx.saved_tensors[0]) * (1 + 1e-4))


@wrong("forward mode", "raises KeyError", "register_jvp")
def jvp_that_raises() -> Any:
    return _with_jvp("jvp_that_raises", lambda ctx, t: {}["t"])


# ---- layout


@wrong("layout", "transposed", "ascontiguousarray", args=(X,))
def ignores_strides() -> Any:
    def kernel(x: Tensor) -> Tensor:
        values = x.numpy()
        return tk.asarray(np.sin(values.ravel(order="K")).reshape(values.shape))

    return _define("ignores_strides", kernel, schema=ONE)


@wrong("layout", "raises", "ascontiguousarray", args=(X,))
def raises_for_strides() -> Any:
    def kernel(x: Tensor) -> Tensor:
        values = x.numpy()
        assert values.flags.c_contiguous
        return tk.asarray(np.sin(values))

    return _define("raises_for_strides", kernel, schema=ONE)


@wrong("layout", "between the elements of 'x'", "strides", args=(X, 2.0))
def writes_between_the_elements() -> Any:
    def kernel(x: Tensor, value: float) -> None:
        window = x.numpy()
        whole = window.base if window.base is not None and window.base.size > window.size else window
        whole[...] = value

    return _define(
        "writes_between_the_elements", kernel, schema="(Tensor(a!) x, float value) -> ()", fake=lambda x, value: None
    )


@wrong("layout", "gradient", "'x'", "strides")
def gradient_ignores_strides() -> Any:
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        if x.is_contiguous:
            return g * tk.cos(x)
        values = x.detach().numpy()
        return g * tk.asarray(np.cos(values.ravel(order="K")).reshape(values.shape))

    return _unary("gradient_ignores_strides", backward)


# ---- zero size


@wrong("zero size", "IndexError", "size 0")
def crashes_on_zero_size() -> Any:
    return _define("crashes_on_zero_size", _np(lambda x: x - x.flat[0]), schema=ONE)


@wrong("zero size", "shape (1,", "make the fake return")
def wrong_on_zero_size() -> Any:
    def kernel(x: Tensor) -> Tensor:
        return x + 1 if x.size else tk.zeros((1, 1))

    return _define("wrong_on_zero_size", kernel, schema=ONE)


@wrong("zero size", "backward raises", "size 0")
def gradient_crashes_on_zero_size() -> Any:
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return g * tk.cos(x) * (x.size / x.size)

    return _unary("gradient_crashes_on_zero_size", backward)


# ---- vmap


def _batched(name: str, function: Any, schema: str, rule: Callable[..., Any]) -> Any:
    def fake(*tensors: Tensor) -> Tensor:
        shape = np.broadcast_shapes(*[t.shape for t in tensors])
        return tk.empty(shape, dtype=tensors[0].dtype, device=tensors[0].device)

    operator = _define(name, _np(function), schema=schema, fake=fake)
    operator.register_vmap(rule)
    return operator


def _front(x: Tensor, dim: int | None) -> Tensor:
    if dim is None:
        return x
    return tk.permute_dims(x, (dim, *[i for i in range(x.ndim) if i != dim]))


@wrong("vmap", "'x'", "register_vmap", "loop")
def wrong_vmap_rule() -> Any:
    def rule(info: Any, in_dims: Any, x: Tensor) -> Any:
        return tk.cos(x), in_dims[0]

    return _batched("wrong_vmap_rule", np.sin, ONE, rule)


@wrong("vmap", "not over 'y'", "register_vmap", args=(X, Y))
def wrong_vmap_rule_for_an_unbatched_argument() -> Any:
    def rule(info: Any, in_dims: Any, x: Tensor, y: Tensor) -> Any:
        if in_dims[1] is None:
            return _front(x, in_dims[0]), 0
        return _front(x, in_dims[0]) * _front(y, in_dims[1]), 0

    return _batched("wrong_vmap_rule_for_an_unbatched_argument", np.multiply, TWO, rule)


@wrong("vmap", "register_vmap", "out_dims", args=(sample(3),))
def wrong_out_dim() -> Any:
    return _batched("wrong_out_dim", np.sin, ONE, lambda info, in_dims, x: (tk.sin(_front(x, in_dims[0])), 1))


@wrong("vmap", "last dimension", "register_vmap")
def vmap_rule_that_ignores_in_dims() -> Any:
    return _batched("vmap_rule_that_ignores_in_dims", np.sin, ONE, lambda info, in_dims, x: (tk.sin(x), 0))


@wrong("vmap", "raises KeyError", "register_vmap")
def vmap_rule_that_raises() -> Any:
    return _batched("vmap_rule_that_raises", np.sin, ONE, lambda info, in_dims, x: ({}["x"], 0))


# ---- determinism and threads


@wrong("determinism", "different results", "tag 'nondeterministic'")
def not_deterministic() -> Any:
    return _define("not_deterministic", _np(lambda x: x + np.random.default_rng().random()), schema=ONE)


@wrong("determinism", "different results", "no state")
def counts_its_calls() -> Any:
    calls: list[int] = []

    def kernel(x: Tensor) -> Tensor:
        calls.append(1)
        return x * len(calls)

    return _define("counts_its_calls", kernel, schema=ONE)


@wrong("threads", "shares state", "in each call")
def not_thread_safe() -> Any:
    scratch = np.zeros(100)

    def kernel(x: Tensor) -> Tensor:
        values = x.numpy()
        part = scratch[: values.size].reshape(values.shape)
        part[...] = values
        return tk.asarray(np.sin(part).astype(values.dtype))

    return _define("not_thread_safe", kernel, schema=ONE)


@wrong("threads", "shares state", "in each call")
def not_thread_safe_and_slow() -> Any:
    scratch: dict[str, Any] = {}

    def kernel(x: Tensor) -> Tensor:
        scratch["x"] = x
        time.sleep(0.002)
        return tk.sin(scratch["x"])

    return _define("not_thread_safe_and_slow", kernel, schema=ONE)
