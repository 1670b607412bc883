"""Singular and other bad matrices raise what the CPU raises: at once, or at the next synchronization."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.dispatch.errors import DeviceMismatchError
from tests.backends.cuda.libraries._library_device import LibraryDevice, device

SINGULAR = np.array([[1.0, 2.0], [2.0, 4.0]])
NAN = np.array([[1.0, 0.0], [0.0, np.nan]])

BAD: dict[str, tuple[Callable[[tk.Tensor], Any], np.ndarray]] = {
    "inv": (tk.linalg.inv, SINGULAR),
    "inv of a stack": (tk.linalg.inv, np.stack([np.eye(2), SINGULAR, np.eye(2)])),
    "solve": (lambda x: tk.linalg.solve(x, x[..., 0]), SINGULAR),
    "solve for many": (lambda x: tk.linalg.solve(x, tk.stack([x, x])), SINGULAR),
    "solve of a stack": (lambda x: tk.linalg.solve(x, x), np.stack([SINGULAR, np.eye(2)])),
    "solve for nothing": (lambda x: tk.linalg.solve(x, x[:, :0]), SINGULAR),
    "cholesky": (tk.linalg.cholesky, np.diag([1.0, -1.0])),
    "upper cholesky": (lambda x: tk.linalg.cholesky(x, upper=True), np.diag([1.0, 0.0])),
    "cholesky of a stack": (tk.linalg.cholesky, np.stack([np.eye(2), -np.eye(2)])),
    "matrix_power": (lambda x: tk.linalg.matrix_power(x, -1), SINGULAR),
    "svd": (tk.linalg.svd, NAN),
    "svd of a stack": (tk.linalg.svd, np.stack([np.eye(2), NAN])),
    "svdvals": (tk.linalg.svdvals, NAN),
    "pinv": (tk.linalg.pinv, NAN),
    "matrix_rank": (tk.linalg.matrix_rank, NAN),
    "lstsq": (lambda x: tk.linalg.lstsq(x, x), NAN),
    "eig": (tk.linalg.eig, NAN),
    "eigvals": (tk.linalg.eigvals, NAN),
    "eig with inf": (tk.linalg.eig, np.diag([1.0, np.inf])),
}


class Late(LibraryDevice):
    """Errors of kernels are found at the next synchronization."""

    asynchronous = True


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("late", [False, True], ids=["at once", "later"])
def test_the_error_is_that_of_the_cpu(name: str, late: bool) -> None:
    function, a = BAD[name]
    with pytest.raises(np.linalg.LinAlgError) as expected:
        function(tk.asarray(a))
    with device(Late if late else LibraryDevice), tk.backends.strict_fallback():
        x = tk.asarray(a, device="libraries")
        if late:
            kept = function(x)
            assert kept is not None
        wait = functools.partial(tk.backends.synchronize, "libraries") if late else functools.partial(function, x)
        with pytest.raises(np.linalg.LinAlgError) as caught:
            wait()
        assert str(caught.value) == str(expected.value)
        tk.backends.synchronize("libraries")  # it is raised once
        assert tk.linalg.inv(tk.eye(2, device="libraries")).tolist() == [[1, 0], [0, 1]]


@pytest.mark.parametrize("name", ["det", "slogdet", "lu", "qr", "eigh"])
def test_what_takes_every_matrix_raises_nothing(name: str) -> None:
    with device(), tk.backends.strict_fallback():
        for a in (SINGULAR, np.zeros((2, 2)), np.zeros((3, 2, 2))):
            getattr(tk.linalg, name)(tk.asarray(a, device="libraries"))
        tk.backends.synchronize("libraries")


@pytest.mark.parametrize(
    ("call", "given"),
    [(tk.linalg.inv, (2, 3)), (tk.linalg.det, (3,)), (tk.linalg.eigh, (3, 2)), (tk.fft.fft, ()), (tk.linalg.qr, (4,))],
)
def test_wrong_shapes_are_refused_as_on_the_cpu(call: Callable[[tk.Tensor], Any], given: tuple[int, ...]) -> None:
    with pytest.raises((ValueError, IndexError)) as expected:
        call(tk.zeros(given))
    with device(), pytest.raises(type(expected.value)) as caught:
        call(tk.zeros(given, device="libraries"))
    assert str(caught.value) == str(expected.value)


def test_operands_on_two_devices() -> None:
    with device(), pytest.raises(DeviceMismatchError, match="different devices"):
        tk.linalg.solve(tk.eye(2, device="libraries"), tk.eye(2))
