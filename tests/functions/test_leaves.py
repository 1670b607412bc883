"""``requires_grad=`` of the functions that make tensors."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tests._backends import Host
from tests.operators._table import FACTORIES

X = tk.asarray([1.0, 2.0])
CALLS: dict[str, tuple[Any, ...]] = {
    "empty": (2,), "zeros": ((2, 3),), "ones": (3,), "full": (2, 1.5), "arange": (3.0,), "linspace": (0, 1, 3),
    "logspace": (0, 1, 3), "geomspace": (1, 8, 4), "eye": (3,), "tri": (3,), "empty_like": (X,), "zeros_like": (X,),
    "ones_like": (X,), "full_like": (X, 2), "fft.fftfreq": (4,), "fft.rfftfreq": (4,),
}  # fmt: skip


def _function(name: str) -> Any:
    module, _, rest = name.rpartition(".")
    return getattr(getattr(tk, module) if module else tk, rest)


def test_every_public_factory_is_tested() -> None:
    public = {
        op.schema.base_name.replace("fft_", "fft.") for op in FACTORIES if not op.schema.base_name.startswith("random")
    }
    assert public <= {*CALLS}


def test_they_make_leaves() -> None:
    wrong = []
    for name, args in CALLS.items():
        for dtype in ("float32", "float64", "complex64"):
            if dtype == "complex64" and name in (
                "arange",
                "linspace",
                "logspace",
                "geomspace",
                "fft.fftfreq",
                "fft.rfftfreq",
            ):
                continue
            function = _function(name)
            leaf = function(*args, dtype=dtype, requires_grad=True)
            tk.abs(leaf).sum().backward()
            good = leaf.requires_grad and leaf.is_leaf and leaf.grad is not None and leaf.dtype == dtype
            plain = function(*args, dtype=dtype, requires_grad=False)
            same = "empty" in name or np.array_equal(leaf.detach().numpy(), plain.numpy())
            if not good or not same or plain.requires_grad or function(*args).requires_grad:
                wrong.append((name, dtype))
    assert not wrong


def test_the_option_is_keyword_only_and_shown() -> None:
    for name, args in CALLS.items():
        parameter = inspect.signature(_function(name)).parameters["requires_grad"]
        assert parameter.kind is parameter.KEYWORD_ONLY, name
        assert parameter.default is False
        with pytest.raises(TypeError):
            _function(name)(*args, None, None, None, None, True)


def test_wrong_options() -> None:
    for name in ("arange", "ones", "full", "zeros_like", "tensor", "asarray", "linspace"):
        args = CALLS.get(name, (X,))
        with pytest.raises(
            RuntimeError, match=rf"\[{name}\] only Tensors of floating point and complex dtype .* got int64"
        ):
            _function(name)(*args, dtype="int64", requires_grad=True)
        with pytest.raises(
            TypeError, match=rf"\[{name}\] the argument 'requires_grad' must be a bool, got 1 of type int"
        ):
            _function(name)(*args, requires_grad=1)
        assert _function(name)(*args, requires_grad=np.True_).requires_grad


def test_between_tensors_linspace_makes_a_leaf() -> None:
    end = tk.tensor(2.0, requires_grad=True)
    made = tk.linspace(0.0, end, 3, requires_grad=True)
    assert made.is_leaf
    assert made.requires_grad
    assert not tk.linspace(0.0, end, 3).is_leaf


def test_asarray_makes_a_leaf_of_the_same_memory() -> None:
    array = np.array([1.0, 2.0])
    leaf = tk.asarray(array, requires_grad=True)
    (leaf * 3).sum().backward()
    assert leaf.grad is not None
    assert leaf.grad.tolist() == [3.0, 3.0]
    array[0] = 5.0
    assert leaf.tolist() == [5.0, 2.0]
    assert tk.asarray([1, 2], "float64", requires_grad=True).requires_grad
    given = tk.asarray([1.0, 2.0])
    for x in (given, tk.tensor([1.0, 2.0], requires_grad=True) * 2, leaf):
        made = tk.asarray(x, requires_grad=True)
        assert made.is_leaf
        assert made.requires_grad
        assert made is not x
        assert np.shares_memory(made.detach().numpy(), x.detach().numpy())
    assert not given.requires_grad
    assert tk.asarray([leaf[0], leaf[1] * 2], requires_grad=True).is_leaf


DRAWS: dict[str, dict[str, Any]] = {
    "uniform": {"low": X - 2}, "normal": {"mean": X}, "exponential": {"scale": X}, "laplace": {"loc": X},
    "gumbel": {"loc": X}, "logistic": {"loc": X}, "cauchy": {"loc": X}, "rayleigh": {"scale": X},
    "lognormal": {"mean": X}, "weibull": {"a": X}, "pareto": {"a": X}, "triangular": {"left": X - 4},
    "multivariate_normal": {"mean": X, "scale_tril": tk.eye(2)}, "gamma": {"a": 2.0, "scale": X}, "power": {"a": X},
    "vonmises": {"mu": X, "kappa": 2.0},
    "chisquare": {"df": X}, "standard_t": {"df": X}, "beta": {"a": X, "b": 1.0}, "dirichlet": {"alpha": X},
    "truncated_normal": {"low": X}, "f": {"dfnum": X, "dfden": 2.0}, "noncentral_chisquare": {"df": X, "nonc": 2.0},
    "noncentral_f": {"dfnum": X, "dfden": 2.0, "nonc": 1.0}, "wald": {"mean": X, "scale": 1.0},
}  # fmt: skip
SMOOTH = [*DRAWS][:16]  # gradients flow to the parameters of these


def test_every_function_that_draws_floats_makes_leaves() -> None:
    counts = {
        "bernoulli", "binomial", "categorical", "geometric", "hypergeometric", "integers", "logseries", "multinomial",
        "multivariate_hypergeometric", "negative_binomial", "poisson", "zipf",
    }  # fmt: skip
    floats = {
        name
        for name in tk.random.__all__
        if inspect.isroutine(f := getattr(tk.random, name)) and "dtype" in inspect.signature(f).parameters
    }
    assert floats - counts - {"rand", "randint", "randn"} == {*DRAWS}  # those are PyTorch's names of others
    wrong = []
    for name, given in DRAWS.items():
        function = getattr(tk.random, name)
        assert inspect.signature(function).parameters["requires_grad"].default is False, name
        if name in SMOOTH:
            given = {key: tk.tensor(x, requires_grad=True) if x is X else x for key, x in given.items()}
        results = []
        for requires_grad in (False, np.True_):
            tk.random.seed(3)
            results.append(function(**given, dtype="float64", requires_grad=requires_grad))
        plain, leaf = results
        leaf.sum().backward()
        good = leaf.is_leaf and leaf.requires_grad and leaf.grad is not None and leaf.dtype == tk.float64
        if not good or leaf.tolist() != plain.tolist() or (plain.requires_grad and plain.is_leaf):
            wrong.append(name)
    assert not wrong
    assert tk.random.normal(3, dtype="complex64", requires_grad=True).requires_grad
    assert not tk.random.normal(3).requires_grad


class _Leaves(Host):
    name = "hostleaves"


def test_on_another_device_and_in_modes() -> None:
    with tk.backends.register(_Leaves()):
        x = tk.ones(2, device="hostleaves", requires_grad=True)
        (x * 3).sum().backward()
        assert x.grad is not None
        assert x.grad.tolist() == [3.0, 3.0]
    with tk.no_grad():
        assert tk.ones(2, requires_grad=True).requires_grad
    for device in ("meta", "cpu"):
        assert tk.zeros(2, device=device, requires_grad=True).requires_grad
