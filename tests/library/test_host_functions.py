"""Functions of NumPy arrays as operators on devices that their definition does not name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.dispatch.errors import MissingKernelError
from tenkey.dispatch.registry import registry
from tests._backends import Host

NS = "host_functions"
DEVICE = "hostfunctions"


class _Device(Host):
    name = DEVICE


@pytest.fixture(autouse=True)
def device() -> Iterator[None]:
    with tk.backends.register(_Device()):
        yield
    for operator in list(registry):
        if operator.schema.namespace == NS:
            registry.undefine(operator, keep_kernels=False)


def _x(*values: float) -> tk.Tensor:
    return tk.asarray(list(values or (1.0, -2.0)), dtype="float64", device=DEVICE)


def _cube() -> Any:
    @tk.library.custom_op(f"{NS}::cube", mutates_args=())
    def cube(x: tk.Tensor) -> tk.Tensor:
        return tk.asarray(x.numpy() ** 3)

    cube.register_autograd(
        lambda ctx, g: g * 3 * ctx.saved_tensors[0] ** 2,
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]),
    )
    return cube


def test_values_and_gradients_on_a_device() -> None:
    cube = _cube()
    x = _x().requires_grad_()
    for _ in range(3):
        y = cube(x)
        assert y.device == x.device
        assert y.tolist() == [1.0, -8.0]
        (grad,) = tk.autograd.grad(y.sum(), x)
        assert grad.device == x.device
        assert grad.tolist() == [3.0, 12.0]
    assert cube(tk.asarray([2.0])).device.type == "cpu"


def test_opcheck_passes_on_the_device() -> None:
    cube = _cube()
    cube.register_fake(lambda x: tk.empty(x.shape, dtype=x.dtype, device=x.device))
    for x in (_x(), tk.asarray([1.0, -2.0])):
        report = tk.library.opcheck(cube, (x,), raise_exception=False)
        assert report.passed, str(report)
        assert report["backends"].status == "passed"


def test_it_counts_as_a_fallback_and_strict_mode_refuses_it() -> None:
    cube = _cube()
    cube(_x())
    cube(_x())
    counts = tk.backends.coverage(DEVICE).fallback
    assert counts[f"{NS}::cube"] == 2
    for _ in range(2):
        with tk.backends.strict_fallback(), pytest.raises(MissingKernelError, match="would fall back to the CPU"):
            cube(_x())


def test_a_function_of_operators_runs_on_the_device() -> None:
    seen: list[str] = []

    @tk.library.custom_op(f"{NS}::twice", mutates_args=())
    def twice(x: tk.Tensor) -> tk.Tensor:
        seen.append(x.device.type)
        return x * 2

    assert twice(_x()).tolist() == [2.0, -4.0]
    assert seen == [DEVICE]


def test_arguments_that_are_changed_and_several_results() -> None:
    @tk.library.custom_op(f"{NS}::scale", mutates_args=("x",))
    def scale(x: tk.Tensor, by: float) -> None:
        x.numpy()[...] *= by

    @tk.library.custom_op(f"{NS}::parts", mutates_args=())
    def parts(xs: list[tk.Tensor]) -> tuple[tk.Tensor, list[tk.Tensor], int]:
        return tk.asarray(xs[0].numpy() + 1), [tk.asarray(x.numpy() * 2) for x in xs], len(xs)

    x = _x()
    version = x._version
    scale(x, 3.0)
    assert x.tolist() == [3.0, -6.0]
    assert x._version > version
    scale(x[:1], 2.0)
    assert x.tolist() == [6.0, -6.0]
    for _ in range(2):
        one, several, count = parts([x, _x(5.0)])
        assert [t.device.type for t in (one, *several)] == [DEVICE] * 3
        assert (one.tolist(), [t.tolist() for t in several], count) == ([7.0, -5.0], [[12.0, -12.0], [10.0]], 2)


def test_the_first_call_draws_the_numbers_of_the_seed() -> None:
    @tk.library.custom_op(f"{NS}::noisy", mutates_args=(), tags="nondeterministic")
    def noisy(x: tk.Tensor) -> tk.Tensor:
        return tk.asarray(x.numpy() + tk.random.normal(x.shape, dtype=x.dtype).numpy())

    tk.random.seed(3)
    want = tk.random.normal(2, dtype="float64").numpy() + np.array([1.0, -2.0])
    for _ in range(2):
        tk.random.seed(3)
        assert np.array_equal(noisy(_x()).numpy(), want)


def test_kernels_for_named_devices_are_as_before() -> None:
    op = tk.library.custom_op(
        f"{NS}::named", lambda x: tk.asarray(x.numpy()), mutates_args=(), schema="(Tensor x) -> Tensor",
        device_types=DEVICE,
    )  # fmt: skip
    with pytest.raises(TypeError, match=f"on the device cpu, but its arguments are on {DEVICE}"):
        op(_x())
