"""``opcheck``: every mistake is reported in its row, with the remedy, and what is right passes."""

from __future__ import annotations

import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.core.tensor import Tensor
from tenkey.library import OpCheckError, OpCheckReport, opcheck
from tenkey.library import scalar as s
from tenkey.library.opcheck_report import ROWS
from tests._opcheck import X, Y, report_of, sample
from tests._wrong_operators import WRONG, Wrong

# ---- what is wrong


@pytest.mark.parametrize("wrong", [pytest.param(w, id=w.name) for w in WRONG])
def test_a_wrong_operator_is_reported_in_its_row_alone(wrong: Wrong) -> None:
    report = report_of(wrong.make(), *wrong.args)
    assert report.failed == (wrong.row,), str(report)
    for words in wrong.says:
        assert words in report[wrong.row].text, report[wrong.row].text


def test_a_row_is_not_judged_while_one_below_it_fails() -> None:
    """A kernel that returns memory that it keeps fails a loop, of which vmap knows nothing."""
    wrong = next(w for w in WRONG if w.name == "result_in_a_buffer")
    report = report_of(wrong.make(), *wrong.args, checks="vmap")
    assert [(row.name, row.text) for row in report] == [("vmap", "not judged while 'schema' fails")]


def test_the_table_of_wrong_operators_covers_the_rows() -> None:
    assert len(WRONG) >= 40
    assert {w.row for w in WRONG} == set(ROWS) - {"backends"}  # which has a fixture of its own below


class _Copy(tk.backends.Backend):
    """A backend in host memory, of the four methods that every backend has."""

    name = "opcheckhost"

    def allocate(self, nbytes: int, device: int = 0) -> Any:
        return bytearray(nbytes)

    def free(self, buffer: Any) -> None:
        pass

    def copy_from_host(self, buffer: Any, array: np.ndarray) -> None:
        buffer[: array.size] = array.tobytes()

    def copy_to_host(self, buffer: Any, array: np.ndarray) -> None:
        array[...] = np.frombuffer(buffer, np.uint8, array.size)


@pytest.fixture
def host() -> Iterator[str]:
    with tk.backends.register(_Copy()):
        yield _Copy.name


def _sine(name: str) -> Any:
    operator = tk.library.custom_op(
        f"wrong::{name}", lambda x: tk.asarray(np.sin(x.numpy())), mutates_args=(), schema="(Tensor x) -> Tensor"
    )
    operator.register_fake(lambda x: tk.empty(x.shape, dtype=x.dtype, device=x.device))
    return operator


@pytest.mark.parametrize(
    ("kernel", "says"),
    [
        (lambda x: tk.cos(x), "the value at index (0, 0): "),
        (lambda x: tk.sin(x.to(dtype=tk.float64)), "dtype float64, on 'cpu' float32"),
        (lambda x: tk.sin(x).reshape(-1), "shape (12,), on 'cpu' (3, 4)"),
        (lambda x: tk.sin(x.to_device("cpu")), "on the device"),
        (lambda x: x.nothing_of_that_name, "raises AttributeError"),
    ],
)
def test_wrong_on_another_backend(host: str, kernel: Callable[[Tensor], Tensor], says: str) -> None:
    operator = _sine("on_another_backend")
    with operator.register_kernel(host, kernel):
        report = report_of(operator, X)
    assert report.failed == ("backends",), str(report)
    assert says in report["backends"].text, report["backends"].text
    assert "opcheckhost" in report["backends"].text


def test_right_on_another_backend(host: str) -> None:
    assert report_of(tk.matmul, X, sample(4, 2))["backends"].status == "passed"
    operator = tk.library.custom_op(
        "right::only_on_the_cpu",
        lambda x: tk.asarray(np.sin(x.numpy())),
        mutates_args=(),
        schema="(Tensor x) -> Tensor",
        device_types="cpu",
    )
    assert report_of(operator, X)["backends"].status == "passed"  # it falls back


def test_a_backend_that_is_not_available_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Copy, "is_available", lambda self: False)
    with tk.backends.register(_Copy()):
        row = report_of(tk.matmul, X, sample(4, 2))["backends"]
    assert row.status == "passed"
    assert "'opcheckhost' cannot be used here (RuntimeError: [opcheckhost] is not available" in row.text


def test_the_sample_may_be_on_another_backend(host: str) -> None:
    report = report_of(tk.multiply, X.to_device(host), Y.to_device(host))
    assert report.passed, str(report)
    assert report["backends"].status == "passed"


# ---- what is right


def _save(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.save_for_backward(*[value for value in inputs if isinstance(value, Tensor)])


def _like(x: Tensor, *args: Any) -> Tensor:
    return tk.empty(x.shape, dtype=x.dtype, device=x.device)


@tk.library.custom_op("right::numpy_sine", mutates_args=())
def numpy_sine(x: Tensor) -> Tensor:
    return tk.asarray(np.ascontiguousarray(np.sin(x.numpy())))


numpy_sine.register_fake(_like)
numpy_sine.register_autograd(lambda ctx, g: g * tk.cos(ctx.saved_tensors[0]), setup_context=_save)


@tk.library.custom_op("right::scaled_sum", mutates_args=())
def scaled_sum(xs: list[Tensor], weights: Tensor | None = None, scale: float = 2.0) -> Tensor:
    total = xs[0]
    for x in xs[1:]:
        total = total + x
    return total * scale if weights is None else total * weights * scale


@tk.library.custom_op("right::split", mutates_args=())
def split(x: Tensor) -> tuple[Tensor, Tensor, int]:
    return x * 2, (x > 0).to(dtype=tk.int64), x.ndim


@tk.library.custom_op("right::fill", mutates_args=("x",))
def fill(x: Tensor, value: float) -> None:
    x.numpy()[...] = value


fill.register_fake(lambda x, value: None)


@tk.library.custom_op("right::float32_only", mutates_args=())
def float32_only(x: Tensor) -> Tensor:
    if x.dtype != tk.float32:
        raise TypeError(f"float32 alone, got {x.dtype}")
    return tk.asarray(np.ascontiguousarray(np.tanh(x.numpy())))


float32_only.register_fake(_like)
float32_only.register_autograd(lambda ctx, g: g * (1 - tk.square(tk.tanh(ctx.saved_tensors[0]))), setup_context=_save)


@tk.library.custom_op("right::once", mutates_args=())
def once(x: Tensor) -> Tensor:
    return tk.asarray(np.ascontiguousarray(np.exp(x.numpy())))


once.register_fake(_like)


@tk.autograd.once_differentiable
def _once_backward(ctx: Any, g: Tensor) -> Tensor:
    return tk.asarray(g.numpy() * np.exp(ctx.saved_tensors[0].numpy()))


once.register_autograd(_once_backward, setup_context=_save)

softplus = tk.library.pointwise(
    "right::softplus(Tensor x, float beta) -> Tensor", scalar=lambda T: lambda x, beta: s.log1p(s.exp(beta * x)) / beta
)
hypot = tk.library.pointwise(
    "right::hypot(Tensor x, Tensor y) -> Tensor", scalar=lambda T: lambda x, y: s.sqrt(x * x + y * y)
)
norm1 = tk.library.reduction(
    "right::norm1(Tensor x, *, int[1]? axis=None, bool keepdims=False) -> Tensor",
    combine=lambda T: lambda a, b: a + b,
    identity=0,
    scalar=lambda T: lambda x: s.abs(x),
)
mean_square = tk.library.composite("right::mean_square(Tensor x, int axis) -> Tensor")(
    lambda x, axis: tk.mean(x * x, axis=axis)
)

RIGHT: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = [
    (numpy_sine, (X,), {}),
    (numpy_sine, (tk.ones((2, 2)),), {}),
    (numpy_sine, (tk.permute_dims(X, (1, 0)),), {}),
    (scaled_sum, ([X, Y],), {}),
    (scaled_sum, ([X, Y], sample(4)), {"scale": 0.5}),
    (split, (X,), {}),
    (fill, (X, 3.0), {}),
    (float32_only, (X,), {}),
    (once, (X,), {}),
    (softplus, (X, 2.0), {}),
    (hypot, (X, Y), {}),
    (norm1, (X,), {"axis": 1}),
    (mean_square, (X,), {"axis": 0}),
    (tk.exp, (X,), {}),
    (tk.exp, (sample(2, 3, dtype="complex64"),), {}),
    (tk.matmul, (X, sample(4, 2)), {}),
    (tk.sum, (X,), {"axis": (0,)}),
    (tk.max, (tk.asarray([[1.0, 1.0], [0.5, 2.0]]),), {"axis": 1}),
    (tk.reshape, (X, (2, 6)), {}),
    (tk.permute_dims, (X, (1, 0)), {}),
    (tk.where, (X > 0, X, Y), {}),
    (tk.concat, ([X, Y],), {"axis": 1}),
    (tk.add, (X, 2), {}),
    (tk.floor, (X,), {}),
    (tk.argmax, (X,), {}),
    (tk.zeros, ((2, 3),), {}),
    (tk.ops.tk.add_, (X, Y), {}),
    (tk.ops.tk.exp_.default, (X,), {}),
    (tk.exp.operator, (X,), {}),  # type: ignore[attr-defined]
    ("tk::relu", (tk.zeros(3),), {}),
    ("right::numpy_sine", (X,), {}),
]


@pytest.mark.parametrize(
    ("op", "args", "kwargs"), RIGHT, ids=[f"{i}-{getattr(r[0], '__name__', r[0])}" for i, r in enumerate(RIGHT)]
)
def test_a_right_operator_passes(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    report = opcheck(op, args, kwargs)
    assert report.passed
    assert [row.name for row in report] == list(ROWS)
    assert all(row.text for row in report if row.status == "skipped")


def test_an_operator_from_a_library_passes() -> None:
    with tk.library.Library("opcheck_lib", "DEF") as lib:
        lib.define("twice(Tensor x, *, int times=2) -> Tensor")
        lib.impl("twice", lambda x, *, times: x * times, "default")
        lib.define("twice.tensor(Tensor x, Tensor times) -> Tensor")
        lib.impl("twice.tensor", lambda x, times: x * times, "default")
        assert opcheck(tk.ops.opcheck_lib.twice, (X,), {"times": 3}).title.startswith("opcheck_lib::twice(")
        assert opcheck(tk.ops.opcheck_lib.twice, (X, Y)).title.startswith("opcheck_lib::twice.tensor(")
        assert opcheck("opcheck_lib::twice.tensor", (X, Y)).passed


# ---- the call itself


def test_it_raises_what_it_would_print(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = next(w for w in WRONG if w.row == "fake")
    operator = wrong.make()
    with pytest.raises(OpCheckError) as caught:
        opcheck(operator, wrong.args)
    assert capsys.readouterr().out == ""
    report = opcheck(operator, wrong.args, raise_exception=False)
    assert capsys.readouterr().out == f"{report}\n" == f"{caught.value}\n"
    assert isinstance(caught.value, RuntimeError)
    assert not report.passed
    assert not caught.value.report.passed
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)


def test_the_table_names_every_row_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    report = opcheck(tk.tanh, (X,))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "opcheck tk::tanh(Tensor x) -> Tensor"
    assert [line[2:15].strip() for line in lines[1:-1] if line[2] != " "] == list(ROWS)
    assert lines[-1] == "passed"
    assert max(map(len, lines)) <= 120
    assert report["schema"].passed
    assert len(report) == 12
    with pytest.raises(KeyError, match="no row 'speed'"):
        report["speed"]


def test_rows_can_be_chosen() -> None:
    report = opcheck(tk.exp, (X,), checks=("gradient", "fake"))
    assert [row.name for row in report] == ["fake", "gradient"]
    assert report["gradient"].status == "passed"
    assert [row.name for row in opcheck(tk.exp, (X,), checks="layout")] == ["layout"]
    with pytest.raises(ValueError, match="no row 'speed': the rows are schema, fake"):
        opcheck(tk.exp, (X,), checks=("speed",))


def test_it_is_the_same_function_everywhere() -> None:
    assert tk.library.opcheck is tk.testing.opcheck is opcheck
    assert tk.testing.OpCheckReport is OpCheckReport


@pytest.mark.parametrize(
    ("op", "args", "kwargs", "error", "says"),
    [
        (len, (X,), None, TypeError, "not an operator"),
        (None, (X,), None, TypeError, "not an operator"),
        ("tk::expp", (X,), None, LookupError, "tk::exp"),
        (tk.exp, X, None, TypeError, r"opcheck\(op, \(x,\)\)"),
        (tk.exp, (X, X), None, TypeError, "does not fit"),
        (tk.exp, (), None, TypeError, "does not fit"),
        (tk.exp, (X,), {"out": X}, TypeError, "does not fit"),
        (tk.exp, (X,), [X], TypeError, "kwargs is a dict"),
        (tk.exp, (tk.zeros(3, device="meta"),), None, TypeError, "'x' is on 'meta'"),
    ],
)
def test_bad_input_is_refused(op: Any, args: Any, kwargs: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        opcheck(op, args, kwargs)


def test_an_operator_without_a_kernel_says_so() -> None:
    with tk.library.Library("opcheck_none", "DEF") as lib:
        lib.define("nothing(Tensor x) -> Tensor")
        report = report_of(tk.ops.opcheck_none.nothing, X)
    assert report.failed == ("schema",)
    assert "MissingKernelError" in report["schema"].text
    assert report["vmap"].text == "not judged while 'schema' fails"


def test_a_mutation_that_does_not_happen_is_noted() -> None:
    operator = tk.library.custom_op(
        "right::does_not_mutate", lambda x: None, mutates_args=("x",), schema="(Tensor(a!) x) -> ()"
    )
    report = report_of(operator, X)
    assert report["schema"].status == "passed"
    assert "'x' is declared as changed and was not changed" in report["schema"].text


def test_the_sample_stays_as_it_is() -> None:
    x, y = X.clone(), Y.clone().requires_grad_()
    before = x.tolist(), y.tolist()
    opcheck(tk.ops.tk.multiply_, (x, y))
    opcheck(next(w for w in WRONG if w.name == "undeclared_mutation").make(), (x,), raise_exception=False)
    assert (x.tolist(), y.tolist()) == before
    assert (x._version, y._version) == (0, 0)
    assert y.grad is None
    assert not x.requires_grad


def test_what_is_local_or_global_stays_as_it_is() -> None:
    generator = tk.random.default_generator()
    state, interval = generator.get_state(), sys.getswitchinterval()
    drawing = tk.library.custom_op(
        "right::drawing",
        lambda x: x + tk.random.normal(x.shape, device=x.device),
        mutates_args=(),
        schema="(Tensor x) -> Tensor",
    )
    with tk.no_grad():
        assert report_of(drawing, X).failed == ("determinism",)
        assert report_of(tk.exp, X)["gradient"].status == "passed"  # although the caller records nothing
        assert not tk.is_grad_enabled()
    assert generator.get_state() == state
    assert sys.getswitchinterval() == interval
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("opcheck")]


def test_a_kernel_that_takes_over_is_not_nondeterministic() -> None:
    calls: list[int] = []

    def kernel(x: Tensor) -> Tensor:  # another rounding from the third call on
        calls.append(1)
        values = np.sin(x.numpy())
        return tk.asarray(np.ascontiguousarray(np.nextafter(values, 9) if len(calls) > 2 else values))

    operator = tk.library.custom_op("right::taken_over", kernel, mutates_args=(), schema="(Tensor x) -> Tensor")
    operator.register_fake(_like)
    report = report_of(operator, X)
    assert len(calls) > 3
    assert report.passed, str(report)


def test_rounding_that_changes_with_every_call_is_nondeterministic() -> None:
    calls: list[int] = []

    def kernel(x: Tensor) -> Tensor:
        calls.append(1)
        values = np.sin(x.numpy())
        return tk.asarray(np.ascontiguousarray(np.nextafter(values, 9) if len(calls) % 2 else values))

    operator = tk.library.custom_op("wrong::rounding", kernel, mutates_args=(), schema="(Tensor x) -> Tensor")
    operator.register_fake(_like)
    assert report_of(operator, X).failed == ("determinism",)


def test_a_tagged_operator_is_not_judged_by_its_values() -> None:
    with tk.library.Library("opcheck_tags", "DEF") as lib:
        lib.define("noise(Tensor x) -> Tensor", tags=("nondeterministic",))
        lib.impl("noise", lambda x: x + tk.random.normal(x.shape, device=x.device), "default")
        report = report_of("opcheck_tags::noise", X)
        assert report.passed, str(report)
        assert "nondeterministic" in report["determinism"].text
        lib.define("dense(Tensor x) -> Tensor", tags=("needs_exact_strides",))
        lib.impl("dense", lambda x: tk.asarray(np.sin(x.numpy().ravel(order="K")).reshape(x.shape)), "cpu")
        report = report_of("opcheck_tags::dense", X)
        assert report["layout"].text == "tagged needs_exact_strides"


def _dropout(name: str, scale: float = 2.0) -> Any:
    """An operator that draws in its kernel; a scale other than 2 makes its gradient wrong."""

    @tk.library.custom_op(f"opcheck_random::{name}", mutates_args=(), tags="nondeterministic")
    def dropout(x: Tensor) -> tuple[Tensor, Tensor]:
        kept = tk.random.uniform(x.shape, dtype=x.dtype, device=x.device) < 0.5
        return x * kept * 2, kept

    dropout.register_fake(lambda x: (tk.empty_like(x), tk.empty(x.shape, dtype=tk.bool, device=x.device)))
    dropout.register_autograd(
        lambda ctx, g, _: g * ctx.saved_tensors[0] * scale,
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(output[1]),
    )
    return dropout


def test_a_random_operator_is_checked_at_a_fixed_seed() -> None:
    right = report_of(_dropout("right"), X)
    assert right.passed, str(right)
    texts = {row.name: (row.status, row.text) for row in right}
    assert texts["determinism"] == ("passed", "at a fixed seed, because it is tagged nondeterministic")
    assert texts["gradient"][0] == texts["second order"][0] == texts["layout"][0] == "passed"
    assert "in any order" in texts["threads"][1]
    wrong = report_of(_dropout("wrong", 3.0), X)
    assert wrong.failed == ("gradient",), str(wrong)
    assert "1.5 times what it should be" in wrong["gradient"].text


def test_other_random_numbers_cannot_be_repeated() -> None:
    rng = np.random.default_rng(0)
    noise = tk.library.custom_op(
        "opcheck_random::noise", lambda x: x + tk.asarray(rng.normal(size=x.shape)), mutates_args=(),
        schema="(Tensor x) -> Tensor", tags=("nondeterministic",),
    )  # fmt: skip
    noise.register_fake(lambda x: tk.empty(x.shape, dtype=tk.float64, device=x.device))
    report = report_of(noise, X)
    assert report.passed, str(report)
    assert "draws other numbers than those of tk.random" in report["determinism"].text
    assert report["gradient"].status == "skipped"


def test_only_the_marked_tensors_are_differentiated() -> None:
    def backward(ctx: Any, g: Tensor) -> Any:
        return g * ctx.saved_tensors[1], None

    operator = tk.library.custom_op(
        "right::half", lambda x, y: x * y, mutates_args=(), schema="(Tensor x, Tensor y) -> Tensor"
    )
    operator.register_autograd(backward, setup_context=_save)
    assert report_of(operator, X, Y).failed == ("gradient",)
    report = report_of(operator, X.clone().requires_grad_(), Y)
    assert report.passed, str(report)


def test_a_kink_is_not_judged() -> None:
    for values in ([0.0, 1.0, -1.0], [0.0, 0.0]):
        assert report_of(tk.relu, tk.asarray(values)).passed
        assert report_of(tk.abs, tk.asarray(values)).passed
    assert report_of(tk.maximum, tk.ones(3), tk.ones(3)).passed
    note = report_of(tk.abs, tk.zeros(2))["gradient"].text
    assert "kink" in note
    step = tk.library.custom_op("wrong::bent", lambda x: tk.abs(x) * 2, mutates_args=(), schema="(Tensor x) -> Tensor")
    step.register_autograd(lambda ctx, g: g * tk.sign(ctx.saved_tensors[0]), setup_context=_save)
    assert report_of(step, tk.asarray([0.0, 1.0])).failed == ("gradient",)  # right in the kink, wrong beside it


def test_single_precision_is_judged_with_a_note() -> None:
    report = report_of(float32_only, X)
    assert "does not compute in float64" in report["gradient"].text
    wrong = tk.library.custom_op(
        "wrong::float32_only", float32_only.__wrapped__, mutates_args=(), schema="(Tensor x) -> Tensor"
    )
    wrong.register_fake(_like)
    wrong.register_autograd(
        lambda ctx, g: g * 1.1 * (1 - tk.square(tk.tanh(ctx.saved_tensors[0]))), setup_context=_save
    )
    assert report_of(wrong, X).failed == ("gradient",)


def test_a_gradient_that_is_refused_twice_passes_with_a_note() -> None:
    assert "once differentiable" in report_of(once, X)["second order"].text


def test_an_operator_without_a_gradient_passes_with_a_note() -> None:
    operator = _sine("without_a_gradient")
    report = report_of(operator, X)
    assert report.passed
    assert "no gradient registered" in report["autograd"].text
    assert report["gradient"].text == "no gradient registered"
    assert report_of(tk.argmax, X)["gradient"].text == "integer result"
    with tk.library.Library("opcheck_flat", "DEF") as lib:
        lib.define("flat(Tensor x) -> Tensor", differentiable=False)
        lib.impl("flat", lambda x: x * 2, "default")
        assert report_of("opcheck_flat::flat", X)["gradient"].text == "declared as not differentiable"


def test_a_gradient_that_is_wanted_but_not_registered_is_a_warning() -> None:
    """An argument requires a gradient, so the author may have forgotten the rule."""
    report = report_of(_sine("wants_a_gradient"), X.clone().requires_grad_())
    assert report.passed
    assert report["autograd"].status == "warning"
    assert "'x' requires a gradient" in report["autograd"].text
    assert "tk.library.register_autograd('wrong::wants_a_gradient', ...)" in report["autograd"].text
    assert "autograd     warning " in str(report)
    assert report["gradient"].status == "skipped"


def test_a_refusal_of_one_dimension_is_no_crash() -> None:
    def softmax(x: Tensor) -> Tensor:
        values = x.numpy()
        powers = np.exp(values - values.max(axis=-1, keepdims=True))  # NumPy knows no maximum of nothing
        return tk.asarray(np.ascontiguousarray(powers / powers.sum(axis=-1, keepdims=True)))

    operator = tk.library.custom_op("right::softmax", softmax, mutates_args=(), schema="(Tensor x) -> Tensor")
    operator.register_fake(_like)
    assert report_of(operator, X).passed
    whole = tk.library.custom_op(
        "wrong::whole", lambda x: x - x.numpy().max().item(), mutates_args=(), schema="(Tensor x) -> Tensor"
    )
    whole.register_fake(_like)
    report = report_of(whole, X)
    assert report.failed == ("zero size",)
    assert "zero-size array" in report["zero size"].text


def test_an_operator_without_tensor_results_needs_no_fake() -> None:
    operator = tk.library.custom_op(
        "right::mean", lambda x: float(x.numpy().mean()), mutates_args=(), schema="(Tensor x) -> float"
    )
    report = report_of(operator, X)
    assert report.passed, str(report)
    assert report["fake"].text == "no tensor result"


def test_a_fake_may_refuse_what_depends_on_values() -> None:
    operator = tk.library.custom_op(
        "right::nonzero",
        lambda x: tk.asarray(np.stack(np.nonzero(x.numpy()), 1)),
        mutates_args=(),
        schema="(Tensor x) -> Tensor",
    )
    assert "NotImplementedError" in report_of(operator, X)["fake"].text

    def fake(x: Tensor) -> Tensor:
        raise NotImplementedError("the number of rows depends on values")

    operator.register_fake(fake)
    report = report_of(operator, X)
    assert report["fake"].status == "skipped"
    assert report.failed in ((), ("vmap",)), str(report)


def test_the_hint_for_complex_values_is_no_failure() -> None:
    operator = _sine("real_alone")
    operator.register_autograd(lambda ctx, g: g * tk.cos(ctx.saved_tensors[0]), setup_context=_save)
    report = report_of(operator, X)
    assert report["gradient"].passed
    assert "complex" in report["gradient"].text
    assert report_of(operator, sample(3, dtype="complex64")).failed == ("gradient",)


def test_large_samples_are_checked_by_some_of_their_components() -> None:
    assert report_of(tk.tanh, sample(40, 50)).passed
    wrong = next(w for w in WRONG if w.name == "wrong_gradient").make()
    assert report_of(wrong, sample(40, 50)).failed == ("gradient",)


def test_a_result_that_depends_on_values_needs_no_fake_of_nothing_either() -> None:
    with tk.library.Library("opcheck_values", "DEF") as lib:
        lib.define("where_true(Tensor x) -> Tensor", tags=("data_dependent_output",))
        lib.impl("where_true", lambda x: tk.asarray(np.flatnonzero(x.numpy())), "cpu")
        report = tk.library.opcheck(
            tk.ops.opcheck_values.where_true, (tk.asarray([1.0, 0.0, 2.0]),), raise_exception=False
        )
        assert report.passed, report
