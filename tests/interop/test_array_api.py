"""The array API standard 2025.12, name by name: signatures, kinds of results, devices, dtypes, and promotion.

The tables are written down from the specification; what each function computes is tested in the tables of the
operators and by the standard's own suite (docs/conformance.md).
"""

from __future__ import annotations

import inspect
import math
import operator
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

import tenkey as tk
from tests._tiers import each

SIGNED: Final = ["int8", "int16", "int32", "int64"]
UNSIGNED: Final = ["uint8", "uint16", "uint32", "uint64"]
FLOATING: Final = ["float32", "float64", "complex64", "complex128"]
ALL: Final = ["bool", *SIGNED, *UNSIGNED, *FLOATING]

ELEMENTWISE_1: Final = """\
abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 floor imag isfinite isinf isnan log
log1p log2 log10 logical_not negative positive real reciprocal round sign signbit sin sinh square sqrt tan tanh trunc"""
ELEMENTWISE_2: Final = """\
add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide equal floor_divide
greater greater_equal hypot less less_equal logaddexp logical_and logical_or logical_xor maximum minimum multiply
nextafter not_equal pow remainder subtract"""

# "names: parameters", by module.
SIGNATURES: Final = {
    "": f"""
arange: start, /, stop=None, step=1, *, dtype=None, device=None
asarray: obj, /, *, dtype=None, device=None, copy=None
empty ones zeros: shape, *, dtype=None, device=None
empty_like ones_like zeros_like: x, /, *, dtype=None, device=None
eye: n_rows, n_cols=None, /, *, k=0, dtype=None, device=None
from_dlpack: x, /, *, device=None, copy=None
full: shape, fill_value, *, dtype=None, device=None
full_like: x, /, fill_value, *, dtype=None, device=None
linspace: start, stop, /, num, *, dtype=None, device=None, endpoint=True
meshgrid: *arrays, indexing='xy'
tril triu: x, /, *, k=0
astype: x, dtype, /, *, copy=True, device=None
can_cast: from_, to, /
finfo iinfo: type, /
isdtype: dtype, kind
result_type: *arrays_and_dtypes
{ELEMENTWISE_1}: x, /
{ELEMENTWISE_2}: x1, x2, /
clip: x, /, min=None, max=None
take: x, indices, /, *, axis=None
take_along_axis: x, indices, /, *, axis=-1
matmul: x1, x2, /
matrix_transpose: x, /
tensordot: x1, x2, /, *, axes=2
vecdot: x1, x2, /, *, axis=-1
broadcast_arrays: *arrays
broadcast_shapes: *shapes
broadcast_to: x, /, shape
concat stack: arrays, /, *, axis=0
expand_dims squeeze: x, /, axis
flip: x, /, *, axis=None
moveaxis: x, source, destination, /
permute_dims: x, /, axes
repeat: x, repeats, /, *, axis=None
reshape: x, /, shape, *, copy=None
roll: x, /, shift, *, axis=None
tile: x, repetitions, /
unstack: x, /, *, axis=0
argmax argmin count_nonzero max mean min all any: x, /, *, axis=None, keepdims=False
nonzero unique_all unique_counts unique_inverse unique_values: x, /
searchsorted: x1, x2, /, *, side='left', sorter=None
where: condition, x1, x2, /
isin: x1, x2, /, *, invert=False
argsort sort: x, /, *, axis=-1, descending=False, stable=True
cumulative_prod cumulative_sum: x, /, *, axis=None, dtype=None, include_initial=False
prod sum: x, /, *, axis=None, dtype=None, keepdims=False
std var: x, /, *, axis=None, correction=0.0, keepdims=False
diff: x, /, *, axis=-1, n=1, prepend=None, append=None
""",
    "linalg": """
cholesky: x, /, *, upper=False
cross vecdot: x1, x2, /, *, axis=-1
det eigh eigvalsh eig eigvals inv matrix_transpose slogdet svdvals: x, /
diagonal: x, /, *, offset=0
matmul outer solve: x1, x2, /
matrix_norm: x, /, *, keepdims=False, ord='fro'
matrix_power: x, n, /
matrix_rank pinv: x, /, *, rtol=None
qr: x, /, *, mode='reduced'
svd: x, /, *, full_matrices=True
tensordot: x1, x2, /, *, axes=2
trace: x, /, *, offset=0, dtype=None
vector_norm: x, /, *, axis=None, keepdims=False, ord=2
""",
    "fft": """
fft ifft rfft irfft hfft ihfft: x, /, *, n=None, axis=-1, norm='backward'
fftn ifftn rfftn irfftn: x, /, *, s=None, axes=None, norm='backward'
fftfreq rfftfreq: n, /, *, d=1.0, dtype=None, device=None
fftshift ifftshift: x, /, *, axes=None
""",
    "info": """
capabilities default_device devices:
default_dtypes: *, device=None
dtypes: *, device=None, kind=None
""",
    "Tensor": """
__abs__ __bool__ __complex__ __dlpack_device__ __float__ __index__ __int__ __invert__ __neg__ __pos__: self, /
__add__ __and__ __eq__ __floordiv__ __ge__ __gt__ __le__ __lshift__ __lt__ __matmul__ __mod__ __mul__ __ne__ __or__ \
__pow__ __rshift__ __sub__ __truediv__ __xor__: self, other, /
__array_namespace__: self, /, *, api_version=None
__dlpack__: self, /, *, stream=None, max_version=None, dl_device=None, copy=None
__getitem__: self, key, /
__setitem__: self, key, value, /
to_device: self, device, /, *, stream=None
""",
}
OWNERS: Final = {
    "": tk, "linalg": tk.linalg, "fft": tk.fft, "info": tk.__array_namespace_info__(), "Tensor": tk.Tensor,
}  # fmt: skip

# Positional-only: the standard leaves the names open. Elsewhere ours are the standard's all the same.
FREE: Final = ("self", "other", "key", "value", "type")
REFLECTED: Final = "add and floordiv lshift matmul mod mul or pow rshift sub truediv xor"


def read() -> list[tuple[str, str, str]]:
    """Owner, name and parameters of each function; names may fill several lines up to the colon."""
    made, names = [], ""
    for owner, text in SIGNATURES.items():
        for line in text.strip().splitlines():
            before, colon, parameters = line.partition(":")
            names += " " + before
            if colon:
                made += [(owner, name, parameters.strip()) for name in names.split()]
                names = ""
    return made


TABLE: Final = read()


def signature_of(parameters: str) -> inspect.Signature:
    made: dict[str, Any] = {}
    exec(f"def f({parameters}): ...", made)  # the text stands in this file
    return inspect.signature(made["f"])


def deviations(ours: inspect.Signature, standard: inspect.Signature) -> list[str]:
    """Why a call that the standard allows may fail, or mean something else. More parameters with defaults are fine."""
    kinds, found, met = inspect.Parameter, [], set()
    parameters = list(ours.parameters.values())
    for place, asked in enumerate(standard.parameters.values()):
        if asked.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD, kinds.VAR_POSITIONAL):
            given = parameters[place] if place < len(parameters) else None
            by_position = (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)
            if given is None or given.kind not in (by_position if asked.kind in by_position else (asked.kind,)):
                found.append(f"{asked} cannot be given by position {place}")
                continue
        else:
            given = ours.parameters.get(asked.name)
        met.add(given and given.name)
        if given is None or (given.name != asked.name and asked.name not in FREE):
            found.append(f"{asked} is {given}")
        elif asked.kind in (kinds.KEYWORD_ONLY, kinds.POSITIONAL_OR_KEYWORD) and given.kind == kinds.POSITIONAL_ONLY:
            found.append(f"{asked} cannot be given by name")
        elif asked.default is not asked.empty and (given.default is given.empty or given.default != asked.default):
            found.append(f"{asked} has the default {given.default}")
    return found + [f"{p} is asked for" for p in parameters if p.name not in met and p.default is p.empty]


def test_the_table_is_whole() -> None:
    counts = {owner: sum(entry[0] == owner for entry in TABLE) for owner in SIGNATURES}
    assert counts == {"": 135, "linalg": 25, "fft": 14, "info": 5, "Tensor": 34}
    assert len(set(TABLE)) == len(TABLE)


@pytest.mark.parametrize(("owner", "name", "parameters"), TABLE)
def test_signature(owner: str, name: str, parameters: str) -> None:
    function = getattr(OWNERS[owner], name)
    assert deviations(inspect.signature(function), signature_of(parameters)) == []


def test_deviations_are_noticed() -> None:
    standard = signature_of("x, /, *, axis=0")
    for wrong, text in [
        ("x, *, axis=None", "axis=0 has the default None"), ("x, *, keepdims=False", "axis=0 is None"),
        ("*, x=1, axis=0", "x cannot be given by position 0"), ("x, axis=0, /", "axis=0 cannot be given by name"),
        ("x, more, *, axis=0", "more is asked for"), ("y, *, axis=0", "x is y"),
    ]:  # fmt: skip
        assert deviations(signature_of(wrong), standard) == [text]
    assert deviations(signature_of("x, axis=0, more=1"), standard) == []


def test_the_namespace_and_the_array_object() -> None:
    assert (tk.e, tk.pi, tk.inf, tk.newaxis) == (math.e, math.pi, math.inf, None)
    assert math.isnan(tk.nan)
    for name, dtype in tk.__array_namespace_info__().dtypes().items():
        assert getattr(tk, name) == dtype == np.dtype(name)
    x = tk.zeros((2, 3))
    assert (x.dtype, x.device, x.ndim, x.shape, x.size) == (tk.float32, tk.device("cpu"), 2, (2, 3), 6)
    assert (x.T.shape, x.mT.shape) == ((3, 2), (3, 2))
    for name in REFLECTED.split():
        assert {f"__{name}__", f"__r{name}__", f"__i{name}__"} <= set(dir(tk.Tensor))
    x[0, :] = 1
    for array, kind in [(x[0, 0], float), (tk.asarray(3), int), (tk.asarray(True), bool), (tk.asarray(1j), complex)]:
        assert type(kind(array)) is kind
    assert operator.index(tk.asarray(3)) == 3
    assert tk.from_dlpack(x).tolist() == x.tolist()


def test_kinds_of_dtypes() -> None:
    info = tk.__array_namespace_info__()
    kinds = {
        "bool": ["bool"], "signed integer": SIGNED, "unsigned integer": UNSIGNED, "integral": SIGNED + UNSIGNED,
        "real floating": ["float32", "float64"], "complex floating": ["complex64", "complex128"],
        "numeric": [*SIGNED, *UNSIGNED, *FLOATING],
    }  # fmt: skip
    for kind, names in kinds.items():
        assert sorted(info.dtypes(kind=kind)) == sorted(names)  # type: ignore[arg-type]
        for name in info.dtypes():
            assert tk.isdtype(getattr(tk, name), kind) == (name in names)
            assert tk.isdtype(getattr(tk, name), (kind, "bool")) == (name in [*names, "bool"])
    assert sorted(info.dtypes()) == sorted(ALL)


def promoted(first: str, second: str) -> str | None:
    """The standard's table; None for what it leaves undefined."""
    if first == second:
        return first
    for kind in (SIGNED, UNSIGNED):
        if {first, second} <= set(kind):
            return max(first, second, key=kind.index)
    if {first, second} <= set(SIGNED + UNSIGNED):
        signed, unsigned = sorted((first, second))  # "int..." < "uint..."
        wider = min(UNSIGNED.index(unsigned) + 1, 4)
        return None if wider == 4 else SIGNED[max(SIGNED.index(signed), wider)]
    if {first, second} <= set(FLOATING):
        if {first, second} == {"float64", "complex64"}:
            return "complex128"
        return max(first, second, key=FLOATING.index)
    return None


@each("second", ALL)
@pytest.mark.parametrize("first", ALL)
def test_promotion_of_every_pair(first: str, second: str) -> None:
    expected = promoted(first, second)
    x, y = tk.ones(2, dtype=first), tk.ones((), dtype=second)
    if expected is None:
        if "uint64" in (first, second) and {first, second} & set(SIGNED):
            with pytest.raises(TypeError, match="no integer dtype holds both"):
                tk.result_type(x, y)
        return
    assert tk.result_type(x, y) == tk.result_type(first, second) == np.dtype(expected)  # type: ignore[arg-type]
    assert tk.can_cast(first, second) == (expected == second)
    assert tk.equal(x, y).dtype == tk.bool
    assert tk.where(tk.asarray([True, False]), x, y).dtype == expected
    for function in (tk.concat, tk.stack):
        assert function([x, tk.ones(2, dtype=second)]).dtype == expected
    if first == "bool":
        assert tk.logical_and(x, y).dtype == (x & y).dtype == tk.bool
        return
    for name in ("add", "multiply", "pow", "subtract"):
        assert getattr(tk, name)(x, y).dtype == expected, name
    for apply in (operator.add, operator.mul, operator.sub, operator.pow):
        assert apply(x, y).dtype == expected
    if expected in SIGNED + UNSIGNED:
        for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "floor_divide", "remainder"):
            assert getattr(tk, name)(x, y).dtype == expected, name
    if expected in SIGNED + UNSIGNED + FLOATING[:2]:
        for name in ("maximum", "minimum", "floor_divide", "remainder"):
            assert getattr(tk, name)(x, y).dtype == expected, name
    else:
        assert tk.divide(x, y).dtype == expected


@pytest.mark.parametrize(
    ("name", "value", "dtypes"),
    [("add", True, ALL), ("add", 1, ALL[1:]), ("multiply", 1.0, FLOATING), ("subtract", 1j, FLOATING[2:])],
)
def test_a_python_number_takes_the_dtype_of_the_array(name: str, value: complex, dtypes: list[str]) -> None:
    for dtype in dtypes:
        if dtype == "bool":
            continue
        x = tk.ones(2, dtype=dtype)
        for got in (getattr(tk, name)(x, value), getattr(tk, name)(value, x)):
            assert got.dtype == x.dtype
            assert got.shape == x.shape


def test_a_complex_number_makes_a_real_array_complex() -> None:
    assert (tk.ones(2, dtype=tk.float32) + 1j).dtype == tk.complex64
    assert (1j * tk.ones(2, dtype=tk.float64)).dtype == tk.complex128


def matrix() -> tk.Tensor:
    return tk.asarray([[2.0, 1.0], [1.0, 3.0]], dtype=tk.float64)


@pytest.mark.parametrize(
    ("call", "fields"),
    [
        (lambda: tk.unique_all(matrix()), ["values", "indices", "inverse_indices", "counts"]),
        (lambda: tk.unique_counts(matrix()), ["values", "counts"]),
        (lambda: tk.unique_inverse(matrix()), ["values", "inverse_indices"]),
        (lambda: tk.linalg.eigh(matrix()), ["eigenvalues", "eigenvectors"]),
        (lambda: tk.linalg.eig(matrix()), ["eigenvalues", "eigenvectors"]),
        (lambda: tk.linalg.qr(matrix()), ["Q", "R"]),
        (lambda: tk.linalg.slogdet(matrix()), ["sign", "logabsdet"]),
        (lambda: tk.linalg.svd(matrix()), ["U", "S", "Vh"]),
    ],
)
def test_named_results(call: Callable[[], Any], fields: list[str]) -> None:
    made = call()
    assert isinstance(made, tuple)
    assert list(made._fields) == fields  # type: ignore[attr-defined]
    assert all(isinstance(field, tk.Tensor) for field in made)
    assert made[0] is getattr(made, fields[0])


def test_tuples_and_not_lists() -> None:
    x = matrix()
    for made in (tk.nonzero(x), tk.unstack(x), tk.broadcast_arrays(x, x), tk.meshgrid(x[0], x[1])):
        assert type(made) is tuple
        assert len(made) == 2
    assert type(tk.broadcast_shapes((2, 1), (3,))) is tuple
    info = tk.__array_namespace_info__()
    assert isinstance(info.devices(), tuple)
    assert isinstance(info.dtypes(), dict)
    assert isinstance(info.capabilities(), dict)


CREATION: Final[list[tuple[str, tuple[Any, ...]]]] = [
    ("arange", (3,)), ("asarray", ([1, 0],)), ("empty", (2,)), ("eye", (2,)), ("full", (2, 1)), ("linspace", (0, 2, 3)),
    ("ones", (2,)), ("zeros", (2,)), ("empty_like", (tk.ones(2),)), ("full_like", (tk.ones(2), 1)),
    ("ones_like", (tk.ones(2),)), ("zeros_like", (tk.ones(2),)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "args"), CREATION)
@each("dtype", ALL)
def test_creation_takes_dtype_and_device(name: str, args: tuple[Any, ...], dtype: str) -> None:
    if dtype == "bool" and name in ("arange", "linspace"):
        return  # numbers only
    function = getattr(tk, name)
    if name == "linspace" and dtype not in FLOATING:
        return  # as above
    for spelled in (dtype, np.dtype(dtype), getattr(tk, dtype)):
        made = function(*args, dtype=spelled)
        assert (made.dtype, made.device) == (np.dtype(dtype), tk.device("cpu"))
    for device in ("cpu", tk.device("cpu"), tk.ones(1).device):
        assert function(*args, dtype=dtype, device=device).device == tk.device("cpu")
    assert function(*args, dtype=dtype, device="meta").device == tk.device("meta")


def test_default_dtypes_of_creation() -> None:
    assert tk.arange(3).dtype == tk.full(2, 3).dtype == tk.asarray([1]).dtype == tk.int64
    assert tk.arange(3.0).dtype == tk.full(2, 3.0).dtype == tk.asarray([1.0, 2]).dtype == tk.float32
    assert tk.ones(2).dtype == tk.eye(2).dtype == tk.linspace(0, 1, 3).dtype == tk.fft.fftfreq(3).dtype == tk.float32
    assert tk.full(2, 1j).dtype == tk.asarray(1j).dtype == tk.linspace(0, 1j, 3).dtype == tk.complex64
    assert tk.full(2, True).dtype == tk.asarray([True]).dtype == tk.bool


@pytest.mark.parametrize("name", ["sum", "prod", "cumulative_sum", "cumulative_prod"])
def test_sums_of_small_integers_are_wide(name: str) -> None:
    for dtype in ALL[1:]:
        x = tk.ones(3, dtype=dtype)
        want = x.dtype if dtype in FLOATING else tk.uint64 if dtype in UNSIGNED else tk.int64
        assert getattr(tk, name)(x).dtype == want
        if not dtype.startswith("complex"):
            assert getattr(tk, name)(x, dtype=tk.float64).dtype == tk.float64
            continue
        with pytest.raises(TypeError, match="imaginary part"):
            getattr(tk, name)(x, dtype=tk.float64)
    assert tk.sum(tk.ones((0, 2))).item() == 0
    assert tk.prod(tk.ones((0, 2))).item() == 1


@each("device", ["cpu", "meta"])
@pytest.mark.parametrize("name", [n for o, n, p in TABLE if not o and p.startswith(("x, /", "x1, x2, /"))])
def test_results_stay_on_the_device(name: str, device: str) -> None:
    bits = name.startswith("bitwise")
    x = tk.ones((2, 2), dtype=tk.int64 if bits else tk.float64, device=device)
    more: dict[str, tuple[Any, ...]] = {
        "expand_dims": (0,), "broadcast_to": ((2, 2),), "permute_dims": ((1, 0),), "repeat": (2,), "reshape": ((4,),),
        "roll": (1,), "full_like": (2,),
    }  # fmt: skip
    parameters = next(p for owner, n, p in TABLE if n == name and not owner)
    args = (x, x) if parameters.startswith("x1, x2") else (x, *more.get(name, ()))
    if name == "squeeze":
        args = (x[:1], 0)
    keywords = {"axis": 0} if name.startswith("cumulative") else {}
    if name == "searchsorted":
        args = (x[0], x)
    if device == "meta" and name in ("nonzero", "unique_all", "unique_counts", "unique_inverse", "unique_values"):
        with pytest.raises((NotImplementedError, RuntimeError)):
            getattr(tk, name)(*args)
        return
    made = getattr(tk, name)(*args, **keywords)
    for one in made if isinstance(made, tuple) else (made,):
        assert one.device == tk.device(device)


INF, NAN = math.inf, math.nan


@pytest.mark.parametrize(
    ("name", "cases"),
    [
        ("add", [(INF, -INF, NAN), (INF, 1, INF), (-0.0, -0.0, -0.0), (-0.0, 0.0, 0.0), (NAN, 1, NAN)]),
        ("subtract", [(INF, INF, NAN), (0.0, 0.0, 0.0), (-0.0, 0.0, -0.0)]),
        ("multiply", [(INF, 0, NAN), (-0.0, 3, -0.0), (-INF, -INF, INF)]),
        ("divide", [(INF, INF, NAN), (0.0, 0.0, NAN), (1, 0.0, INF), (1, -0.0, -INF), (3, -INF, -0.0)]),
        ("floor_divide", [(1, 0.0, INF), (0.0, 0.0, NAN), (INF, INF, NAN), (-0.0, 2, -0.0), (1, INF, 0.0)]),
        ("remainder", [(1, 0.0, NAN), (INF, 1, NAN), (-0.0, 1, 0.0), (1, -1, -0.0), (1, -INF, -INF), (-1, INF, INF)]),
        ("pow", [(NAN, 0, 1), (1, NAN, 1), (-1, INF, 1), (0.5, -INF, INF), (-0.0, -1, -INF), (-8, 0.5, NAN)]),
        ("atan2", [(0.0, -0.0, math.pi), (-0.0, -0.0, -math.pi), (INF, INF, math.pi / 4), (-1, 0, -math.pi / 2)]),
        ("hypot", [(INF, NAN, INF), (NAN, -INF, INF), (3, 4, 5), (-0.0, 0.0, 0.0)]),
        ("logaddexp", [(-INF, -INF, -INF), (INF, 1, INF), (NAN, 1, NAN), (0, 0, math.log(2))]),
        ("maximum", [(NAN, 1, NAN), (1, NAN, NAN), (INF, 1, INF)]),
        ("minimum", [(NAN, 1, NAN), (1, NAN, NAN), (-INF, 1, -INF)]),
        ("copysign", [(3, -0.0, -3), (NAN, 1, NAN), (-3, 0.0, 3), (INF, -1, -INF)]),
        ("nextafter", [(0.0, 1, 5e-324), (1, 1, 1), (NAN, 1, NAN), (INF, 0, 1.7976931348623157e308)]),
        ("sqrt", [(-0.0, -0.0), (-1, NAN), (INF, INF)]),
        ("exp", [(-INF, 0.0), (INF, INF), (-0.0, 1)]),
        ("expm1", [(-0.0, -0.0), (-INF, -1), (INF, INF)]),
        ("log", [(0.0, -INF), (-0.0, -INF), (-1, NAN), (1, 0.0), (INF, INF)]),
        ("log1p", [(-1, -INF), (-0.0, -0.0), (-2, NAN)]),
        ("log2", [(0.0, -INF), (8, 3)]),
        ("log10", [(-0.0, -INF), (1000, 3)]),
        ("sin", [(-0.0, -0.0), (INF, NAN)]),
        ("cos", [(-0.0, 1), (-INF, NAN)]),
        ("tan", [(-0.0, -0.0), (INF, NAN)]),
        ("asin", [(-0.0, -0.0), (2, NAN)]),
        ("acos", [(1, 0.0), (2, NAN)]),
        ("atan", [(-0.0, -0.0), (INF, math.pi / 2)]),
        ("sinh", [(-0.0, -0.0), (-INF, -INF)]),
        ("cosh", [(-INF, INF), (0.0, 1)]),
        ("tanh", [(-0.0, -0.0), (-INF, -1)]),
        ("asinh", [(-0.0, -0.0), (-INF, -INF)]),
        ("acosh", [(1, 0.0), (0.5, NAN), (INF, INF)]),
        ("atanh", [(1, INF), (-1, -INF), (-0.0, -0.0), (2, NAN)]),
        ("floor", [(-0.0, -0.0), (-INF, -INF), (-0.5, -1)]),
        ("ceil", [(-0.0, -0.0), (-0.5, -0.0), (INF, INF)]),
        ("trunc", [(-0.5, -0.0), (-INF, -INF)]),
        ("round", [(0.5, 0.0), (1.5, 2), (2.5, 2), (-0.5, -0.0), (-INF, -INF)]),
        ("sign", [(-0.0, 0.0), (NAN, NAN), (-INF, -1)]),
        ("abs", [(-0.0, 0.0), (-INF, INF)]),
        ("reciprocal", [(-0.0, -INF), (-INF, -0.0)]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("size", [1, 9])
def test_special_cases(name: str, cases: list[tuple[float, ...]], size: int) -> None:
    """Alone and in company: kernels may treat the rest of a vector in another way."""
    for *given, expected in cases:
        got = getattr(tk, name)(*[tk.full(size, value, dtype=tk.float64) for value in given]).numpy()
        np.testing.assert_allclose(got, np.full(size, float(expected)), rtol=1e-15, err_msg=f"{name}{given}")
        if expected == 0:
            assert (np.signbit(got) == (math.copysign(1, expected) < 0)).all(), (name, given)
