"""Random numbers on a device that has templates and no kernels of its own: the numbers of the CPU."""

from __future__ import annotations

import ctypes
import functools
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.core.random import draws, philox, samplers
from tenkey.library import scalar as s
from tenkey.ops.builtin import random_bits as bits
from tests._reference_device import Reference
from tests._tiers import Failures

RNG = np.random.default_rng(0)
KEYS = ((0, 0), (7, 3), (2**64 - 3, 2**63 + 5))


@pytest.fixture
def device() -> Iterator[str]:
    with tk.backends.register(Reference()), tk.backends.strict_fallback():
        yield "reference"


def equal(got: tk.Tensor, want: Any) -> None:
    """The same dtype, shape and bits."""
    values = got.numpy()
    assert (values.dtype, values.shape) == (want.dtype, want.shape)
    np.testing.assert_array_equal(values, want)


def both(device: str, name: str, *args: Any, **kwargs: Any) -> None:
    call = getattr(tk.ops.tk, name)
    equal(call(*args, **kwargs, device=device), call(*args, **kwargs).numpy())


def on(device: str, values: Any) -> tk.Tensor:
    return tk.tensor(np.asarray(values), device=device)


# ---- factories


@pytest.mark.parametrize("shape", [(), (0,), (7,), (2, 3), (2, 0)])
def test_shapes_keys_and_starts(device: str, shape: tuple[int, ...]) -> None:
    for key in KEYS:
        for start in (0, 1, 5, 2**60 - 40):
            both(device, "random_uniform", shape, *key, start)
            both(device, "random_normal", shape, *key, start)
            both(device, "random_integers", shape, *key, start, low=-3, high=10)
            both(device, "random_standard", shape, *key, start)
            both(device, "random_addresses", shape, *key, start)


def test_uniform(device: str) -> None:
    failures = Failures()
    for dtype in ("float16", "float32", "float64"):
        for low, high in ((0.0, 1.0), (-2.5, 3.1), (1.0, 1.001953125), (0.0, 6e4)):
            with failures.of(f"{dtype} {low} {high}"):
                both(device, "random_uniform", (1000,), 5, 6, 3, low=low, high=high, dtype=tk.finfo(dtype).dtype)
    failures.check()
    for call in (tk.ops.tk.random_uniform, tk.ops.tk.random_normal):
        with pytest.raises(TypeError, match="got dtype int64"):
            call((3,), 5, 6, 3, dtype=tk.int64, device=device)
    with pytest.raises(ValueError, match=r"\[uniform\] got low"):
        tk.ops.tk.random_uniform((3,), 5, 6, 3, low=2.0, high=1.0, device=device)
    with pytest.raises(ValueError, match="a key is a pair of integers"):
        tk.ops.tk.random_uniform((3,), 2**64, 6, 3, device=device)
    with pytest.raises(ValueError, match=r"at most 2\*\*60"):
        tk.ops.tk.random_uniform((3,), 5, 6, 2**60 - 2, device=device)


def test_normal(device: str) -> None:
    for dtype in (tk.float16, tk.float32, tk.float64):
        both(device, "random_normal", (1000,), 5, 6, 3, dtype=dtype)


def test_complex_normal() -> None:
    with tk.backends.register(Reference()):
        for dtype in (tk.complex64, tk.complex128):
            both("reference", "random_normal", (1000,), 5, 6, 3, dtype=dtype)


def test_integers(device: str) -> None:
    failures = Failures()
    for low, high, dtype in (
        (0, 1, tk.int64), (-128, 128, tk.int8), (0, 2**32, tk.uint32), (-(2**31), 2**31, tk.int32),
        (5, 2**32 + 6, tk.int64), (-(2**63), 2**63, tk.int64), (0, 2**64, tk.uint64), (3, 2**63 + 12345, tk.uint64),
    ):  # fmt: skip
        with failures.of(f"{low} {high} {dtype}"):
            both(device, "random_integers", (500,), 5, 6, 3, low=low, high=high, dtype=dtype)
    failures.check()
    with pytest.raises(ValueError, match="not all of"):
        tk.ops.tk.random_integers((3,), 5, 6, 3, low=0, high=300, dtype=tk.int8, device=device)


def test_permutation(device: str) -> None:
    for n in (0, 1, 200):
        both(device, "random_permutation", n, 5, 6, 3)


@pytest.mark.parametrize("kind", samplers.STANDARD)
def test_standard(device: str, kind: str) -> None:
    for dtype in (tk.float32, tk.float64):
        both(device, "random_standard", (1000,), 5, 6, 3, kind=kind, dtype=dtype)


# ---- samplers with parameters


@pytest.mark.parametrize(
    ("kind", "first", "second"),
    [
        ("gamma", RNG.uniform(0.05, 20, 300), 1.0),
        ("log_gamma", RNG.uniform(0.001, 2, 300), 1.0),
        ("standard_t", RNG.uniform(0.5, 30, 300), 1.0),
        pytest.param("poisson", RNG.uniform(0, 40, 300), 1.0, marks=pytest.mark.full),
        ("poisson", np.array([0.0, 9.99, 10.0, 1e6, 2.0**60]), 1.0),
        pytest.param(
            "binomial", RNG.integers(0, 100, 300).astype(float), RNG.uniform(0, 1, 300), marks=pytest.mark.full
        ),
        ("binomial", np.array([0, 5, 5, 1000, 10**6]), np.array([0.5, 0.0, 1.0, 0.5, 0.999])),
        pytest.param("truncated_normal", RNG.uniform(-5, 3, 300), RNG.uniform(3, 8, 300), marks=pytest.mark.full),
        ("truncated_normal", np.array([-np.inf, 2.0, -9.0, 0.0]), np.array([np.inf, np.inf, -8.0, 0.1])),
        ("vonmises", np.array([0.0, 1e-9, 0.3, 4.0, 1e6, 1e200]), 1.0),
        ("zipf", np.array([1.01, 1.5, 2.0, 4.0, 2000.0]), 1.0),
        ("logseries", np.array([0.0, 1e-20, 0.5, 0.9, 0.9999]), 1.0),
    ],
)
def test_rejection(device: str, kind: str, first: Any, second: Any) -> None:
    second = np.asarray(second, np.float64)
    addresses = np.zeros((len(first), 2), np.uint64)
    addresses[:, 0], addresses[:, 1] = np.arange(len(first)) * 64 + 7, 2**63 + 1
    got = tk.ops.tk.random_rejection(on(device, first), on(device, second), on(device, addresses), 2**64 - 9, kind=kind)
    want = samplers.rejection(kind, np.asarray(first), second, addresses, 2**64 - 9)
    np.testing.assert_array_equal(got.numpy(), np.minimum(want, 2.0**63 - 1024).astype(got.dtype))


@pytest.mark.full
def test_hypergeometric(device: str) -> None:
    good = np.array([0.0, 5.0, 5.0, 40.0, 70.0, 1e6, 1e9])
    bad = np.array([4.0, 0.0, 5.0, 40.0, 50.0, 1e5, 1e8])
    sample = np.array([3.0, 2.0, 5.0, 40.0, 100.0, 1e4, 1e8])
    addresses = np.zeros((50, 7, 2), np.uint64)
    addresses[..., 0] = np.arange(350).reshape(50, 7) * 64
    places = [on(device, x) for x in (good, bad, sample, addresses)]
    want = samplers.rejection("hypergeometric", good, bad, addresses, 5, sample)
    equal(tk.ops.tk.random_hypergeometric(*places, 5), want.astype(np.int64))


def test_public_functions() -> None:
    """The distributions of ``tk.random``, on the device and on the CPU, from generators in one state."""
    device = "reference"
    p = np.array([0.2, 0.5, 0.3])
    cov = np.array([[2.0, 0.5], [0.5, 1.0]])
    calls: dict[str, Any] = {
        "uniform": lambda d, at: tk.random.uniform((40, 2), low=at([0.0, 1.0]), high=3.0),
        "normal": lambda d, at: tk.random.normal((5, 2), mean=at([0.0, 1.0])),
        "gamma": lambda d, at: tk.random.gamma((20, 2), a=at([0.5, 3.0])),
        "beta": lambda d, at: tk.random.beta((20, 2), a=at([0.5, 3.0]), b=2.0),
        "poisson": lambda d, at: tk.random.poisson((20, 2), lam=at([3.0, 30.0])),
        "binomial": lambda d, at: tk.random.binomial((20, 2), n=20, p=at([0.1, 0.6])),
        "bernoulli": lambda d, at: tk.random.bernoulli((20, 2), p=at([0.1, 0.6])),
        "categorical": lambda d, at: tk.random.categorical(at(p), (50,)),
        "multinomial": lambda d, at: tk.random.multinomial(30, at(p), (6,)),
        "dirichlet": lambda d, at: tk.random.dirichlet(at(p), (6,)),
        "multivariate_normal": lambda d, at: tk.random.multivariate_normal(at([0.0, 1.0]), at(cov), (6,)),
        "lognormal": lambda d, at: tk.random.lognormal((6, 2), mean=at([0.0, 1.0]), sigma=2.0),
        "weibull": lambda d, at: tk.random.weibull((6, 1), a=at([1.5])),
        "geometric": lambda d, at: tk.random.geometric((6, 2), p=at([0.3, 0.9])),
        "truncated_normal": lambda d, at: tk.random.truncated_normal((6, 2), low=at([-1.0, 3.0]), high=5.0),
        "standard_t": lambda d, at: tk.random.standard_t((6, 2), df=at([1.0, 3.0])),
        "permutation": lambda d, at: tk.random.permutation(30, device=d),
        "laplace": lambda d, at: tk.random.laplace((6, 1), loc=at([1.0]), scale=2.0),
        "wald": lambda d, at: tk.random.wald((6, 2), mean=at([1.0, 2.0]), scale=3.0),
        "power": lambda d, at: tk.random.power((6, 2), a=at([1.0, 2.0])),
        "integers": lambda d, at: tk.random.integers(on(d, [0, -5]), 2**62, (6, 2)),
        "permuted": lambda d, at: tk.random.permuted(on(d, np.arange(12).reshape(3, 4)), axis=1),
    }
    compare(device, calls)


@pytest.mark.full
def test_composed_functions() -> None:
    p = [3.0, 30.0]
    compare("reference", {
        "f": lambda d, at: tk.random.f((6, 2), dfnum=at(p), dfden=2.0),
        "noncentral_chisquare": lambda d, at: tk.random.noncentral_chisquare((6, 2), df=at(p), nonc=2.0),
        "noncentral_f": lambda d, at: tk.random.noncentral_f((6, 2), dfnum=at(p), dfden=2.0, nonc=at(p)),
        "negative_binomial": lambda d, at: tk.random.negative_binomial((6, 2), n=at(p), p=0.4),
        "vonmises": lambda d, at: tk.random.vonmises((6, 2), mu=at(p), kappa=3.0),
        "multivariate_hypergeometric": lambda d, at: tk.random.multivariate_hypergeometric(at(p), 20, (6,)),
    })  # fmt: skip


def compare(device: str, calls: dict[str, Any]) -> None:
    """Compare the numbers of each call on the device and on the CPU."""
    failures = Failures()
    with tk.backends.register(Reference()):
        for name, call in calls.items():
            with failures.of(name):
                results = []
                for where in ("cpu", device):
                    tk.random.seed(11)
                    results.append(call(where, functools.partial(on, where)))
                want, got = results
                assert got.device == device
                np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-13, strict=True)
        failures.check()
        assert not [name for name in tk.backends.coverage(device).fallback if "random" in name]


def test_wrong_parameters_are_errors(device: str) -> None:
    checked = tk.ops.tk.random_checked
    for rule, good, bad in (
        ("finite", [1.0, -2.0], [1.0, np.inf]), ("width", [0.5], [0.0]), ("bound", [np.inf], [np.nan]),
        ("nonnegative", [0.0], [-1.0]), ("weight", [0.0, np.inf], [-1e-300]), ("positive", [1.0], [0.0]),
        ("probability", [0.0, 1.0], [1.5]), ("chance", [1.0], [0.0]), ("rate", [2.0**62], [2.0**63]),
        ("count", [3.0], [2.5]), ("int8", [127.0], [128.0]), ("probabilities", [0.25, 0.75], [0.25, 0.5]),
        ("covariance", [[2.0, 1.0], [1.0, 2.0]], [[1.0, 2.0], [2.0, 1.0]]),
    ):  # fmt: skip
        equal(checked(on(device, good), caller="test", name="x", rule=rule), np.asarray(good))
        with pytest.raises(ValueError, match=r"\[test\] x must be") as here:
            checked(on(device, bad), caller="test", name="x", rule=rule)
        with pytest.raises(ValueError, match=r"\[test\] x must be") as there:
            checked(on("cpu", bad), caller="test", name="x", rule=rule)
        assert str(here.value) == str(there.value)


# ---- the expressions, against the functions of ``core/random``


def test_exact_functions(device: str) -> None:
    """On the reference device, which evaluates operation by operation: compiled code may contract two of them."""

    def check(function: Any, x: Any, want: Any) -> None:
        equal(function(on(device, x)), want)

    x = np.concatenate([RNG.uniform(0, 50, 1000), 1.3 * 2.0 ** np.arange(-1021, 1023, 7), [0, 0.5, 0.75, 1, 2]])
    check(bits.random_double_log, x, samplers.ARRAYS.safe_log(x))
    y = np.concatenate([RNG.uniform(-800, 800, 2000), [0, np.nan, np.inf, -np.inf, -745.1, -740.0, 709.78]])
    check(bits.random_double_exp, y, samplers.exact_exp(y))
    z = np.concatenate([RNG.uniform(-1, 5, 2000), [0, -1, -2, np.nan, np.inf, 1e-20, -1e-300]])
    check(bits.random_double_log1p, z, samplers.exact_log1p(z))
    turns = np.concatenate([RNG.uniform(0, 1, 2000), np.arange(0, 1, 1 / 8)])
    check(bits.random_cosine, turns, samplers.ARRAYS.cosine(turns))
    check(bits.random_sine, turns, samplers.ARRAYS.sine(turns))
    check(bits.random_stirling, np.arange(100.0), samplers.ARRAYS.stirling_error(np.arange(100.0)))


def test_words_against_the_published_vectors() -> None:
    """Random123's known answers for Philox4x32-10: all ones, and the digits of pi."""
    for block, stream, seed, want in (
        (2**64 - 1, 2**64 - 1, 2**64 - 1, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (0x85A308D3243F6A88, 0x0370734413198A2E, 0x299F31D0A4093822, "d16cfe09 94fdcceb 5001e420 24126ea1"),
    ):
        place = tk.asarray(np.uint64(block)), tk.asarray(np.uint64(stream)), seed
        low, high = bits.random_low(*place).item(), bits.random_high(*place).item()
        words = [low & 0xFFFFFFFF, low >> 32, high & 0xFFFFFFFF, high >> 32]
        assert " ".join(f"{int(word):08x}" for word in words) == want


def test_addresses_are_those_of_the_layouts() -> None:
    element = tk.asarray(np.arange(17, 90, dtype=np.uint64))
    for seed, stream in KEYS:
        place = tk.asarray(np.uint64(stream)), seed
        equal(bits.random_word(element, *place), philox.random_bits((seed, stream), 17, 73).astype(np.uint64))
        order = np.argsort(bits.random_pair(element, *place).numpy(), kind="stable")
        np.testing.assert_array_equal(order, draws.permutation((seed, stream), 73, 17))


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_the_source_for_devices_gives_the_same_bits(tmp_path: Path) -> None:
    """The emitted C of words and of the exact functions, compiled without contraction."""
    m = samplers.ARRAYS
    functions: list[tuple[Any, str, Any]] = [
        (bits.random_word, "uint64", None), (bits.random_pair, "uint64", None), (bits.random_high, "uint64", None),
        (bits.random_double_log, "float64", m.log), (bits.random_double_exp, "float64", m.exp),
        (bits.random_cosine, "float64", m.cosine),
    ]  # fmt: skip
    text = "#include <math.h>\n#include <stdint.h>\n"
    for function, dtype, _ in functions:
        facet = function.operator.facets["Pointwise"]
        parameters = dict.fromkeys(facet.parameters, dtype)
        source = s.to_c(facet.expression, parameters, dtype=dtype, name=function.operator.schema.base_name)
        text += source.replace("static inline", "")
    (tmp_path / "all.c").write_text(text)
    command = ["cc", "-O2", "-ffp-contract=off", "-shared", "-fPIC", "-o", str(tmp_path / "all.so")]
    subprocess.run([*command, str(tmp_path / "all.c"), "-lm"], check=True)
    library = ctypes.CDLL(str(tmp_path / "all.so"))
    for function, dtype, exact in functions:
        kind = ctypes.c_uint64 if dtype == "uint64" else ctypes.c_double
        compiled = getattr(library, function.operator.schema.base_name)
        compiled.restype = kind
        compiled.argtypes = [kind] * len(function.operator.schema.arguments)
        if exact is None:
            element, stream = RNG.integers(0, 2**64, (2, 50), np.uint64)
            want = function(tk.asarray(element), tk.asarray(stream), 2**64 - 3).tolist()
            got = [compiled(*row, 2**64 - 3) for row in zip(element.tolist(), stream.tolist(), strict=True)]
        else:
            x = RNG.uniform(0, 1, 50)
            want, got = exact(x).tolist(), [compiled(value) for value in x.tolist()]
        assert got == want
