"""anomaly_mode: what it finds, what its errors name, and that it leaves nothing behind."""

from __future__ import annotations

import asyncio
import gc
import inspect
import threading
import traceback
import weakref
from collections.abc import Callable, Generator
from typing import Any

import pytest

import tenkey as tk
from tenkey import Tensor
from tenkey.autograd.tape import call_sites as traces


def leaf(*values: float) -> Tensor:
    return tk.tensor(list(values), requires_grad=True)


def line_of(text: str) -> int:
    """The line of this file that ends with a comment."""
    lines, first = inspect.getsourcelines(inspect.getmodule(line_of))  # type: ignore[arg-type]
    (found,) = [i for i, line in enumerate(lines, max(first, 1)) if line.rstrip().endswith(f"# {text}")]
    return found


# ---- backward


def test_nan_in_backward_names_the_culprit() -> None:
    x = leaf(0.0, 4.0)
    with tk.autograd.anomaly_mode():
        y = tk.sqrt(x * 0.0)  # the product
        with pytest.raises(
            RuntimeError, match="Function 'MultiplyBackward' returned nan values in its 0th output"
        ) as e:
            y.sum().backward()
    text = str(e.value)
    assert f'test_anomaly.py", line {line_of("the product")}' in text
    assert "Traceback of forward call that caused the error" in text
    assert "shape (2,)" in text
    assert "tenkey/autograd" not in text
    assert x.grad is None


def test_infinity_in_backward_has_a_switch_of_its_own() -> None:
    x = leaf(0.0, 4.0)
    y = tk.sqrt(x)
    with tk.autograd.anomaly_mode():
        y.sum().backward(retain_graph=True)
    with (
        tk.autograd.anomaly_mode(check_inf=True),
        pytest.raises(RuntimeError, match="Function 'SqrtBackward' returned inf values in its 0th output"),
    ):
        y.sum().backward(retain_graph=True)
    z = tk.sqrt(leaf(0.0) * 0.0)
    with tk.autograd.anomaly_mode(check_nan=False, check_inf=False):
        z.backward(retain_graph=True)
    with tk.autograd.anomaly_mode(check_nan=False, check_inf=True), pytest.raises(RuntimeError, match="inf values"):
        z.backward(retain_graph=True)
    with tk.autograd.anomaly_mode(check_backward=False):
        z.backward()


def test_a_forward_call_outside_of_the_mode() -> None:
    y = tk.sqrt(leaf(0.0) * 0.0)
    with (
        tk.autograd.anomaly_mode(),
        pytest.raises(RuntimeError, match=r"(?s)nan values.*was not made in anomaly_mode\(\)"),
    ):
        y.backward()


@pytest.mark.parametrize("call", ["grad", "inputs"])
def test_grad_looks_as_well(call: str) -> None:
    x = leaf(0.0)
    with tk.autograd.anomaly_mode():
        y = tk.sqrt(x * 0.0)
        ask = {"grad": lambda: tk.autograd.grad(y, x), "inputs": lambda: y.backward(inputs=[x])}[call]
        with pytest.raises(RuntimeError, match=r"MultiplyBackward.*nan"):
            ask()


def test_second_order() -> None:
    x = leaf(0.0)
    with tk.autograd.anomaly_mode(check_inf=True):
        y = x**1.5
        (first,) = tk.autograd.grad(y, x, create_graph=True)
        with pytest.raises(RuntimeError, match=r"returned (inf|nan) values"):
            first.backward()


class Failing(tk.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 2.0

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        raise KeyError("mine")


def test_an_error_in_backward_carries_the_forward_call() -> None:
    x = leaf(1.0)
    with tk.autograd.anomaly_mode():
        y = Failing.apply(x)  # the failing call
        with pytest.raises(KeyError, match="mine") as e:
            y.backward()
    (note,) = e.value.__notes__
    assert note.startswith("Error detected in FailingBackward.")
    assert f"line {line_of('the failing call')}" in note
    text = "".join(traceback.format_exception(e.value))
    assert 'raise KeyError("mine")' in text  # where it was raised
    y = Failing.apply(x)
    with pytest.raises(KeyError) as e:
        y.backward()
    assert not hasattr(e.value, "__notes__")


# ---- saved tensors that were changed


def test_a_changed_tensor_names_both_lines() -> None:
    x = leaf(1.0, 2.0)
    with tk.autograd.anomaly_mode():
        y = tk.exp(x)  # saved here
        y.add_(1.0)  # changed here
    with pytest.raises(RuntimeError, match="modified by an inplace operation") as e:
        y.sum().backward()
    text = str(e.value)
    assert "is at version 1; expected version 0" in text
    assert f"saved by tk::exp at {__file__}:{line_of('saved here')} (y = tk.exp(x)" in text
    assert f"last change was by tk::add_ at {__file__}:{line_of('changed here')} (y.add_(1.0)" in text
    assert "Hint" not in text


def test_outside_of_the_mode_there_is_a_hint() -> None:
    y = tk.exp(leaf(1.0))
    y.add_(1.0)
    with pytest.raises(RuntimeError, match=r"Hint: enable anomaly detection.*anomaly_mode\(\)"):
        y.backward()


# ---- forward

MAKERS: list[tuple[Callable[[], Any], str, str]] = [
    (lambda: tk.log(tk.tensor([-1.0, 1.0])), "nan", "tk::log"),
    (lambda: tk.sqrt(leaf(-1.0)), "nan", "tk::sqrt"),
    (lambda: tk.zeros(2) / 0.0, "nan", "tk::divide"),
    (lambda: tk.zeros(2).divide_(0.0), "nan", "tk::divide_"),
    (lambda: tk.sum(tk.tensor([float("inf"), float("-inf")])), "nan", "tk::sum"),
    (lambda: tk.tensor([1e38], dtype=tk.float32) * 10.0, "inf", "tk::multiply"),
    (lambda: tk.log(tk.zeros(2)), "inf", "tk::log"),
    (lambda: tk.exp(tk.tensor([1000.0 + 1j])), "inf", "tk::exp"),
]


@pytest.mark.parametrize(("program", "what", "name"), MAKERS)
def test_forward(program: Callable[[], Any], what: str, name: str) -> None:
    with (
        tk.autograd.anomaly_mode(check_inf=what == "inf", check_nan=what == "nan"),
        pytest.raises(RuntimeError, match=rf"\[{name}\] returned {what} values in forward"),
    ):
        program()
    with tk.autograd.anomaly_mode(check_inf=True, check_forward=False):
        program()
    with tk.autograd.anomaly_mode(check_nan=what != "nan", check_inf=what != "inf"):
        if name != "tk::exp":  # which makes both
            program()
    program()


KEEPERS: list[Callable[[Tensor], Any]] = [
    lambda bad: bad + 1.0,
    lambda bad: tk.sum(bad),
    lambda bad: bad[0],
    lambda bad: tk.stack([bad, bad]),
    lambda bad: bad.add_(1.0),
    lambda bad: tk.zeros(2).copy_(bad),
    lambda bad: tk.where(tk.isnan(bad), 0.0, bad),
    lambda bad: tk.full((2,), float("nan")),
    lambda bad: tk.full_like(bad, float("nan")),
    lambda bad: tk.asarray([float("nan")]),
    lambda bad: tk.zeros(2) * float("nan"),
    lambda bad: tk.ones(2).__setitem__(0, float("nan")),
]


@pytest.mark.parametrize("program", KEEPERS)
def test_a_nan_that_was_given_is_no_error(program: Callable[[Tensor], Any]) -> None:
    with tk.autograd.anomaly_mode(check_inf=True):
        program(tk.tensor([float("nan"), float("inf")]))


def test_gradients_in_between_are_the_engines_business() -> None:
    """A formula that divides by zero is reported as its node, not as the division in it."""
    x = leaf(0.0)
    with tk.autograd.anomaly_mode(check_inf=True):
        y = tk.sqrt(x)
        with pytest.raises(RuntimeError, match="Function 'SqrtBackward'"):
            y.backward()


def test_without_values() -> None:
    with tk.autograd.anomaly_mode(check_inf=True):
        x = tk.ones(3, device="meta")
        assert (x / 0.0).shape == (3,)
    with tk.autograd.anomaly_mode(check_inf=True):
        assert (tk.asarray([1, 0]) // 1).tolist() == [1, 0]


def test_inside_of_transforms() -> None:
    with tk.autograd.anomaly_mode():
        with pytest.raises(RuntimeError, match="nan values in forward"):
            tk.transforms.vmap(tk.log)(tk.tensor([1.0, -1.0]))
        assert tk.transforms.grad(lambda x: x * x)(tk.tensor(3.0)).item() == 6.0


# ---- where it is on, and what stays


def test_it_is_local_and_ends() -> None:
    seen: list[Any] = []

    def elsewhere() -> None:
        seen.append(tk.log(tk.tensor(-1.0)).item())

    with tk.autograd.anomaly_mode():
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    assert len(seen) == 1
    with pytest.raises(KeyError), tk.autograd.anomaly_mode():
        raise KeyError
    tk.log(tk.tensor(-1.0))

    async def work(mode: Any) -> bool:
        with mode:
            await asyncio.sleep(0)
            try:
                tk.log(tk.tensor(-1.0))
            except RuntimeError:
                return True
            return False

    async def both() -> list[bool]:
        on, off = tk.autograd.anomaly_mode(), tk.autograd.anomaly_mode(check_nan=False)
        return list(await asyncio.gather(work(on), work(off)))

    assert asyncio.run(both()) == [True, False]


def test_nested_modes_the_inner_one_counts() -> None:
    bad = tk.tensor(-1.0)
    with tk.autograd.anomaly_mode():
        with tk.autograd.anomaly_mode(check_nan=False):
            tk.log(bad)
        with pytest.raises(RuntimeError, match="nan"):
            tk.log(bad)


def test_as_a_decorator() -> None:
    @tk.autograd.anomaly_mode()
    def work() -> Tensor:
        return tk.log(tk.tensor(-1.0))

    @tk.autograd.anomaly_mode(check_nan=False)
    def generator() -> Generator[Tensor, None, None]:
        yield tk.log(tk.tensor(-1.0))

    with pytest.raises(RuntimeError, match="nan values"):
        work()
    for one in generator():
        assert tk.isnan(one).item()
        assert tk.isnan(tk.log(tk.tensor(-2.0))).item()
    for wrong in (1, "yes", work):
        with pytest.raises(TypeError, match="anomaly_mode"):
            tk.autograd.anomaly_mode(wrong)  # type: ignore[arg-type]


def test_the_mode_changes_no_result() -> None:
    def train() -> list[float]:
        w = leaf(0.5, -0.5)
        for _ in range(3):
            loss = (tk.tanh(w * 2.0) ** 2).sum()
            (g,) = tk.autograd.grad(loss, w, create_graph=True)
            (g * g).sum().backward()
            with tk.no_grad():
                w -= 0.1 * w.grad  # type: ignore[operator]
            w.grad = None
        result: list[float] = w.tolist()
        return result

    plain = train()
    with tk.autograd.anomaly_mode(check_inf=True):
        assert train() == plain


def test_traces_keep_nothing_alive() -> None:
    gc.collect()
    gc.disable()
    try:
        before = len(traces._changes)

        def work() -> list[Any]:
            big = tk.ones(100)
            with tk.autograd.anomaly_mode():
                y = tk.exp(leaf(1.0) * big)
                y = y + 1.0
                y.add_(1.0)
                y.sum().backward()
            return [weakref.ref(big), weakref.ref(y), weakref.ref(y.grad_fn)]

        assert [reference() for reference in work()] == [None] * 3
        assert len(traces._changes) == before
    finally:
        gc.enable()
