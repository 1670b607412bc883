"""Note [Changes in machine code]: assignments and in-place operators write what NumPy writes, and autograd notices."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenkey as tk
import tenkey.numpy as tnp
from tenkey.numpy.compiled_calls.class_slots import compiled
from tests.numpy._outcomes import frames, outcome
from tests.numpy._versions import SHORT_POWERS

pytestmark = pytest.mark.skipif(compiled() is None, reason="this interpreter runs no compiled calls")

IN_PLACE = [operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ifloordiv, operator.ipow]


class TestChanges:
    """Note [Changes in machine code]."""

    VALUES: tuple[Any, ...] = (
        5.0, 7, -1, True, 1 << 70, 2.5, np.float64(3.5), np.float32(1.5), np.int64(4), 1j, [1.0], "text",
        np.array(9.0), np.array([8.0]), np.arange(4.0), np.arange(3), np.full((1, 4), 6.0), np.nan,
    )  # fmt: skip

    @pytest.mark.parametrize("dtype", ["f8", "f4", "i8", "i2", "?", "c8"])
    @pytest.mark.parametrize("shape", [(4,), (3, 4)])
    def test_assigned_values_are_numpys(self, shape: tuple[int, ...], dtype: str) -> None:
        x = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
        mask = x.real.astype(int) % 2 == 0
        windows = (slice(1, 3), slice(None, None, -1), ..., (slice(None), 0))
        for index in (0, -1, 9, (1, 2), *windows, mask, np.array([1, 1])):
            for value in self.VALUES:
                if dtype in ("i8", "i2", "?") and isinstance(value, (float, complex, str, np.ndarray)):
                    continue  # NumPy truncates with a warning, or sets the least integer
                given = [tnp.array(v) if isinstance(v, np.ndarray) else v for v in (index, value)]
                for _ in range(2):
                    a, b = tnp.array(x), x.copy()
                    wanted, found = outcome(operator.setitem, b, index, value), outcome(operator.setitem, a, *given)
                    if isinstance(wanted, type):  # a list of one number is a number here
                        assert isinstance(found, type) or value == [1.0] or np.shape(value) == (1,), (index, value)
                        continue
                    assert found is None, (index, value, found)
                    assert np.array_equal(np.asarray(a), b, equal_nan=dtype != "?"), (index, value)
                    assert a._version > 0

    def test_in_place_operators_are_numpys(self) -> None:
        for dtype in ("f8", "f4", "i8", "c16"):
            for apply in IN_PLACE:
                for other in (2, 2.0, np.float64(2), "self", "row", "shifted", "scalar", "broadcast"):
                    if SHORT_POWERS and apply is operator.ipow and dtype == "i8" and isinstance(other, float):
                        continue  # NumPy squares in integers
                    a, b = tnp.array(np.arange(1, 13).astype(dtype)), np.arange(1, 13).astype(dtype)
                    for _ in range(2):
                        operands = []
                        for x in (a, b):
                            named = {"self": x, "row": x[::-1].copy() + 0, "shifted": None, "scalar": x[3],
                                     "broadcast": x[:1]}  # fmt: skip
                            y = named[other] if isinstance(other, str) else other
                            operands.append((x[1:], x[:-1]) if y is None else (x, y))
                        found, wanted = outcome(apply, *operands[0]), outcome(apply, *operands[1])
                        assert isinstance(found, type) == isinstance(wanted, type), (dtype, apply, other)
                        assert np.array_equal(np.asarray(a), b, equal_nan=True), (dtype, apply, other)

    def test_elements_behave_as_scalars(self) -> None:
        """Note [In-place operators of arrays]: a 0-d array is replaced and not changed."""
        x = tnp.array([1.0, 2.0])
        for _ in range(2):
            total = first = x[0]
            total += 1
            assert first == 1.0
            assert total == 2.0

    def test_parts_are_updated(self) -> None:
        x, y = tnp.arange(6.0).reshape(2, 3), np.arange(6.0).reshape(2, 3)
        for _ in range(2):
            for each in (x, y):
                each[0] += 1
                each[:, 1] *= 2
                each[1, 1] -= 3
                each[1:] /= 2
        assert x.tolist() == y.tolist()

    def test_backward_notices_changes(self) -> None:
        weights = tnp.array([1.0, 2.0])
        weights[0] = 1.5
        weights += 1.0
        changes: list[Callable[[Any], Any]] = [
            lambda w: operator.iadd(w, 1.0), lambda w: w.__setitem__(0, 1.0), lambda w: operator.imul(w[:1], 2.0),
            lambda w: w.__setitem__(w > 0, 3.0), lambda w: w.__setitem__(slice(1), 3.0),
        ]  # fmt: skip
        for change in changes:
            x = tnp.array([1.0, 1.0]).requires_grad_()
            product = (x * weights).sum()
            change(weights)
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                product.backward()

    def test_views_that_gradients_forbid_to_change(self) -> None:
        x = tnp.array([1.0, 2.0, 3.0])
        x[0] = 1.0
        x += 0.0
        x.requires_grad_()
        with tk.no_grad():
            view = x[1:]
        for change in (lambda: operator.iadd(view, 1.0), lambda: operator.setitem(view, 0, 1.0)):
            with pytest.raises(RuntimeError, match="leaf"):
                change()
        assert x.tolist() == [1.0, 2.0, 3.0]

    def test_memory_of_several_elements(self) -> None:
        """What is read-only in NumPy: elements that share memory are not written to."""
        x = tnp.array([1.0, 2.0])
        x += 1.0
        x[0] = 1.0
        for _ in range(2):
            rows = tnp.broadcast_to(x, (3, 2))
            with pytest.raises(RuntimeError, match="broadcast"):
                rows += 1.0
            with pytest.raises(RuntimeError, match="broadcast"):
                rows[1:] = 7.0
        assert x.tolist() == [1.0, 3.0]

    def test_registered_kernels_are_called(self) -> None:
        x = tnp.array([1.0, 2.0])
        calls: dict[str, Callable[[], Any]] = {
            "add_": lambda: operator.iadd(x, 1.0), "basic_put_": lambda: operator.setitem(x, 0, 1.0),
            "put_": lambda: operator.setitem(x, x > 1, 2.0),
        }  # fmt: skip
        library = tk.library.Library("tk", "IMPL")
        for name, call in calls.items():
            seen: list[Any] = []
            call()
            assert frames(call) == 0

            def counting(a: Any, *args: Any, seen: list[Any] = seen) -> Any:
                seen.append(args)
                return a

            with library.impl(name, counting, "cpu", allow_override=True):
                call()
                call()
            assert len(seen) == 2, name
