"""What authors and users of backends get wrong is said by name, at the earliest point, and nothing is left behind."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.core.device import device_types
from tenkey.dispatch.errors import MissingKernelError, RegistrationError
from tests._backends import Host, TemplateHost


def made(**members: Any) -> Host:
    """A backend in host memory with other members."""
    kind: Any = type("Made", (Host,), {"name": "made", **members})
    instance: Host = kind()
    return instance


def attempt(backend: Host, action: Callable[[], Any] = lambda: tk.exp(tk.ones(2, device="made"))) -> Any:
    """Register a backend, do something, remove it."""
    with tk.backends.register(backend):
        return action()


class TestRegistration:
    # "default" means all devices to tk.library; "ss" and "ß" would have the same keys
    @pytest.mark.parametrize("name", ["default", "import", "none_".upper(), "ß", "a b", "a:0", "", 3, None])
    def test_names(self, name: Any) -> None:
        before = (device_types(), sorted(vars(tk.Tensor)))
        with pytest.raises(RegistrationError, match=r"a lower-case identifier .* got "):
            tk.backends.register(made(name=name))
        assert (device_types(), sorted(vars(tk.Tensor))) == before

    @pytest.mark.parametrize(
        ("method", "value", "call"),
        [
            ("allocate", lambda self, nbytes: bytearray(nbytes), r"\(nbytes\).*allocate\(nbytes, device\)"),
            ("allocate", 5, r" = 5 .*allocate\(nbytes, device\)"),
            ("free", lambda self: None, r"free\(buffer\)"),
            ("copy_to_host", lambda self, buffer: None, r"copy_to_host\(buffer, array\)"),
            ("copy_from_host", lambda self, a, b, c: None, r"\(a, b, c\).*copy_from_host\(buffer, array\)"),
            ("synchronize", lambda self: None, r"synchronize\(device\)"),
            ("device_count", 2, r" = 2 .*device_count\(\)"),
            ("pointwise", lambda self, scalar: None, r"pointwise\(scalar, operands, result\)"),
            ("reduction", None, r" = None .*reduction\(combine, scalar, operand, identity\)"),
            ("setup", lambda self, device: None, r"setup\(\)"),
        ],
    )
    def test_methods_that_cannot_be_called(self, method: str, value: Any, call: str) -> None:
        with pytest.raises(
            RegistrationError, match=rf"the method {method}.* of the backend 'made' cannot .*{call}|{call}"
        ):
            tk.backends.register(made(**{method: value}))
        assert "made" not in device_types()

    def test_a_name_that_is_taken(self) -> None:
        with tk.backends.register(made()):
            for _ in range(2):
                with pytest.raises(
                    RegistrationError, match=r"'made' is registered already, by .*Made: .* remove\(\) of"
                ):
                    tk.backends.register(made())
            assert tk.ones(2, device="made").tolist() == [1.0, 1.0]
        with pytest.raises(RegistrationError, match="'cpu' is registered already, by tenkey itself"):
            tk.backends.register(made(name="cpu"))

    def test_other_ways_to_write_methods(self) -> None:
        members: dict[str, Any] = {
            "device_count": staticmethod(lambda: 1), "is_available": classmethod(lambda cls: True),
            "allocate": lambda self, *args, **kwargs: Host.allocate(self, *args, **kwargs),
        }  # fmt: skip
        assert attempt(made(**members)).shape == (2,)


class TestAnswers:
    @pytest.mark.parametrize(
        ("method", "value", "error"),
        [
            ("device_count", "2", TypeError), ("device_count", None, TypeError), ("device_count", -1, ValueError),
            ("current_device", None, TypeError), ("current_device", 0.5, TypeError), ("current_device", 1, ValueError),
            ("current_device", -1, ValueError),
        ],
    )  # fmt: skip
    def test_what_cannot_be_true_of_devices(self, method: str, value: Any, error: type[Exception]) -> None:
        with pytest.raises(error, match=rf"\[made\] {method}\(\) of the backend Made returned {value!r}: it returns"):
            attempt(made(**{method: lambda self: value}))

    def test_no_device(self) -> None:
        with pytest.raises(ValueError, match=r"\[made\] has 0 device\(s\), so there is no 'made'"):
            attempt(made(device_count=lambda self: 0))

    def test_no_buffer(self) -> None:
        with pytest.raises(TypeError, match=r"\[made\] allocate\(8, 0\) returned None: it returns a buffer"):
            attempt(made(allocate=lambda self, nbytes, device=0: None))

    def test_an_error_of_a_template_names_the_call(self) -> None:
        class Failing(TemplateHost):
            name = "made"
            kernel: Any = None

            def pointwise(self, scalar: Any, operands: Any, result: Any) -> Any:
                if scalar.name != "tk::exp":
                    return super().pointwise(scalar, operands, result)
                if self.kernel is None:
                    raise ZeroDivisionError("of the author")
                return self.kernel

            def reduction(self, *args: Any) -> Any:
                raise KeyError("sum")

        with pytest.raises(RuntimeError) as caught:
            attempt(Failing())
        assert str(caught.value) == (
            "[tk::exp] the template pointwise() of the backend 'made' raised ZeroDivisionError for float32: "
            "of the author"
        )
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
        assert caught.value.__cause__.__context__ is None
        with pytest.raises(RuntimeError, match=r"\[tk::sum\] the template reduction\(\) .* KeyError for uint8, uint64"):
            attempt(Failing(), lambda: tk.sum(tk.ones(2, dtype=tk.uint8, device="made")))

        def kernel(out: Any, x: Any) -> None:
            raise OSError("no power")

        failing = Failing()
        failing.kernel = kernel
        with pytest.raises(OSError, match="no power") as raised:
            attempt(failing)
        note = "[tk::exp] In the kernel that pointwise() of 'made' returned for float32."
        assert raised.value.__notes__ == [note]

    @pytest.mark.parametrize(
        ("value", "message"),
        [
            (lambda x: None, "returned None of type NoneType as its result: the schema says Tensor"),
            (lambda x: 3.0, "returned 3.0 of type float"),
            (lambda x: np.ones(2), "of type ndarray"),
            (lambda x: [x], "of type list"),
            (lambda x: tk.ones(2), "a Tensor on the device cpu, but its arguments are on made"),
        ],
    )
    def test_results_of_kernels(self, value: Any, message: str) -> None:
        """Kernels of built-in operators too: what they return would be the next operator's problem."""

        def setup(self: Host) -> None:
            tk.library.register_kernel("tk::exp", "made", value)

        for gradient in (False, True):
            with pytest.raises(TypeError, match=rf"\[tk::exp\] its kernel .*{message}"):
                attempt(
                    made(setup=setup), lambda g=gradient: tk.exp(tk.tensor([1.0, 2.0], device="made", requires_grad=g))
                )  # type: ignore[misc]


class TestRemoved:
    def test_its_tensors_say_so(self) -> None:
        backend = made()
        with tk.backends.register(backend):
            x = tk.ones(3, device="made")
        assert repr(x) == "tensor(..., shape=(3,), dtype=float32, device='made')"
        for action in (lambda: x + 1, lambda: x[0], lambda: x.add_(1), lambda: x.cpu(), lambda: tk.zeros(3).copy_(x)):
            with pytest.raises(MissingKernelError, match=r"The backend of 'made' was removed, .* register it again"):
                action()
        for action in (lambda: x.tolist(), lambda: tk.zeros_like(x), lambda: tk.ones(2, device=x.device)):
            with pytest.raises(RuntimeError, match="the backend of the device 'made' was removed"):
                action()
        with tk.backends.register(backend):
            assert (x + 1).tolist() == [2.0, 2.0, 2.0]

    @pytest.mark.parametrize("kind", [Host, TemplateHost])
    def test_another_backend_of_the_name_never_sees_its_buffers(self, kind: type[Host]) -> None:
        class First(kind):  # type: ignore[misc, valid-type]
            name = "made"

        first, second = First(), First()
        with tk.backends.register(first):
            x = tk.ones((2, 3), device="made")
        seen: list[Any] = []
        for method in ("copy_to_host", "copy_from_host"):
            inner = getattr(second, method)
            setattr(second, method, lambda buffer, array, inner=inner: (seen.append(id(buffer)), inner(buffer, array)))
        with tk.backends.register(second):
            y = tk.ones((2, 3), device="made")
            for action in (
                lambda: x + 1, lambda: x + y, lambda: y + x, lambda: y @ x[0], lambda: x.tolist(), lambda: x.cpu(),
                lambda: tk.sum(x), lambda: x.add_(1), lambda: y.copy_(x), lambda: x.copy_(y), lambda: x[0].clone(),
                lambda: tk.concat([y, x]), lambda: repr(x), lambda: x.copy_(tk.ones((2, 3))),
            ):  # fmt: skip
                with pytest.raises(
                    RuntimeError, match="belongs to another backend that had the name 'made' and was removed"
                ):
                    action()
            assert id(x.array.buffer) not in seen
            assert (y + 1).tolist() == [[2.0] * 3] * 2
        x = y = None
        gc.collect()
        assert first.live == second.live == set()


@pytest.mark.parametrize("kind", [Host, TemplateHost])
def test_copies_are_refused_as_on_the_cpu(kind: type[Host]) -> None:
    class Made(kind):  # type: ignore[misc, valid-type]
        name = "made"

    with tk.backends.register(Made()):
        for dtype in (tk.bool, tk.int8, tk.float32):
            for x in (tk.zeros(3, dtype=dtype), tk.zeros(3, dtype=dtype, device="made")):
                for source in (1j, tk.ones((), dtype=tk.complex64, device=x.device), tk.ones((), dtype=tk.complex64)):
                    with pytest.raises(TypeError, match=r"complex.* cannot be written into a tensor of dtype"):
                        x[0] = source
                with pytest.raises(RuntimeError, match="refers to a single memory location"):
                    tk.broadcast_to(x[:1], (3,)).copy_(x)
                assert x.tolist() == [0] * 3
