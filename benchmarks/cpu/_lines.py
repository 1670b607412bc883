"""The statements of the groups, with the names of ``Operands`` in ``_rows.py``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ._rows import Line

__all__ = ["BATCHED", "COPIES", "DTYPES", "INDEXING", "PRODUCTS", "RANDOM", "REDUCTIONS", "ROWS", "SORTING"]


def _same(kind: str, statements: str, operands: str) -> Iterator[Line]:
    for name in statements.split():
        yield Line(f"{name} {kind}", f"xp.{name}({operands})")


def _cast(name: str, dtype: str) -> Line:
    target = {"int32": "xp.int32", "int64": "xp.int64", "float32": "xp.float32", "float64": "xp.float64"}.get(dtype)
    kinds = {"x": "float32", "d": "float64", "i": "int32", "k": "int64", "u": "uint8", "m": "bool"}
    target = target or f"xp.{dtype}"
    return Line(
        f"{kinds[name]} to {dtype}",
        f"xp.astype({name}, {target})",
        f"{name}.astype({target})",
        f"{name}.to({target})",
    )


DTYPES: Final = (
    *_same("float64", "add multiply divide maximum logaddexp", "d, e"),
    *_same("float64", "abs square exp expm1 sin tanh floor", "d"),
    *_same("float64", "log sqrt log1p", "e"),
    Line("pow float64", "e ** d"),
    *_same("int32", "add multiply floor_divide remainder maximum bitwise_and", "i, j"),
    Line("abs int32", "xp.abs(i)"),
    Line("square int32", "xp.square(i)"),
    Line("left shift int32", "i << 3"),
    *_same("int64", "add multiply floor_divide remainder maximum bitwise_and", "k, l"),
    Line("abs int64", "xp.abs(k)"),
    Line("negative int64", "-k"),
    *(
        _cast(*pair)
        for pair in (
            ("x", "float64"), ("d", "float32"), ("x", "int32"), ("i", "float32"), ("k", "float32"), ("x", "int64"),
            ("i", "int64"), ("k", "int32"), ("u", "float32"), ("m", "float32"), ("x", "float16"),
        )
    ),
    Line("float32 to bool", "xp.astype(x, xp.bool)", "x.astype(xp.bool)", "x.to(xp.bool)"),
    Line("less float32", "x < v"),
    Line("greater equal float32", "x >= v"),
    Line("equal float32", "x == v"),
    Line("less than a number", "x < 0.5"),
    Line("less float64", "d < e"),
    Line("equal int64", "k == l"),
    Line("not equal int32", "i != j"),
    Line("isnan float64", "xp.isnan(d)"),
    Line("logical and", "xp.logical_and(m, m)"),
    Line("where float32", "xp.where(m, x, v)"),
    Line("where float64", "xp.where(m, d, e)"),
    Line("where with a number", "xp.where(m, x, 0.0)"),
    Line("clip float32", "xp.clip(x, -1.0, 1.0)"),
    Line("add a row", "X + row"),
    Line("multiply by a row", "X * row"),
    Line("add a column", "X + col"),
    Line("subtract a column float64", "E - E[:, :1]"),
    Line("outer sum", "col + row"),
    Line("exp of a difference from a column", "xp.exp(X - col)"),
    Line("add a number", "x + 2.0"),
    Line("add every second", "x[::2] + v[::2]"),
    Line("sin of every second", "xp.sin(x[::2])"),
    Line("add a transpose", "X + Y.T"),
    Line("multiply columns", "X[:, ::2] * 2.0"),
    Line("add a window", "X[1:, 1:] + X[:-1, :-1]"),
    Line("float32 + float64", "x + d"),
    Line("int32 * float64", "i * d"),
)  # fmt: skip


def _reductions() -> Iterator[Line]:
    plain = {"sum": "sum", "mean": "mean", "max": "amax", "min": "amin", "argmax": "argmax", "var": "var"}
    for name, torch in plain.items():
        biased = ", correction=0" if name == "var" else ""
        for label, operand, axis in (("", "X", None), ("axis 0", "X", 0), ("axis 1", "X", 1), ("middle axis", "T", 1)):
            ours = f"xp.{name}({operand})" if axis is None else f"xp.{name}({operand}, axis={axis})"
            theirs = f"xp.{torch}({operand}{biased})" if axis is None else f"xp.{torch}({operand}, dim={axis}{biased})"
            yield Line(f"{name} {label}".strip(), ours, torch=theirs)
    for name, operand in (("any", "no"), ("all", "yes")):
        yield Line(name, f"xp.{name}({operand})")
        for axis in (0, 1):
            yield Line(
                f"{name} axis {axis}", f"xp.{name}({operand}, axis={axis})", torch=f"xp.{name}({operand}, {axis})"
            )
        yield Line(f"{name} middle axis", f"xp.{name}({operand}3, axis=1)", torch=f"xp.{name}({operand}3, 1)")
    for name, numpy in (("cumsum", "xp.cumsum"), ("cumprod", "xp.cumprod"), ("cummax", "xp.maximum.accumulate")):
        operand = "near" if name == "cumprod" else "x"
        yield Line(name, f"xp.{name}({operand}, axis=0)", f"{numpy}({operand}, axis=0)", f"xp.{name}({operand}, 0)")
        for axis in (0, 1):
            yield Line(
                f"{name} axis {axis}", f"xp.{name}(X, axis={axis})", f"{numpy}(X, axis={axis})", f"xp.{name}(X, {axis})"
            )
    yield Line("logsumexp", "xp.logsumexp(x)", "", "xp.logsumexp(x, 0)")
    for axis in (0, 1):
        yield Line(f"logsumexp axis {axis}", f"xp.logsumexp(X, axis={axis})", "", f"xp.logsumexp(X, {axis})")
    yield Line("sum float64", "xp.sum(d)")
    yield Line("sum int64", "xp.sum(k)")
    yield Line("max int32", "xp.max(i)")
    yield Line("sum of a transpose", "xp.sum(X.T, axis=0)", torch="xp.sum(X.T, 0)")
    yield Line("prod", "xp.prod(near)")
    yield Line("count nonzero", "xp.count_nonzero(m)")
    yield Line("std axis 1", "xp.std(X, axis=1)", torch="xp.std(X, dim=1, correction=0)")


REDUCTIONS: Final = tuple(_reductions())


def _normalizations() -> Iterator[Line]:
    """Yield each operator forward, its backward pass alone, and both; ``{}`` stands for a suffix of the operands."""
    for name, ours, theirs, seed in (
        ("softmax", "xp.softmax(X{0}, axis=1)", "xp.softmax(X{0}, 1)", ", g"),
        ("log_softmax", "xp.log_softmax(X{0}, axis=1)", "xp.log_softmax(X{0}, 1)", ", g"),
        (
            "layer norm",
            "xp.layer_norm(X{0}, row{0}, shift{0})",
            "F.layer_norm(X{0}, (columns,), row{0}, shift{0})",
            ", g",
        ),
        ("cross-entropy", "xp.cross_entropy(X{0}, label)", "F.cross_entropy(X{0}, label)", ""),
    ):
        leaves = "[X_grad, row_grad, shift_grad]" if "shift" in ours else "[X_grad]"
        forward, recorded = (ours.format(""), theirs.format("")), (ours.format("_grad"), theirs.format("_grad"))
        yield Line(f"{name} forward", forward[0], "", forward[1])
        yield Line(
            f"{name} backward",
            f"xp.autograd.grad(y[0], y[1]{seed}, retain_graph=True)",
            "",
            prepare=f"({recorded[0]}, {leaves})",
            prepare_torch=f"({recorded[1]}, {leaves})",
        )
        both = [f"xp.autograd.grad({text}, {leaves}{seed})" for text in recorded]
        yield Line(f"{name} forward + backward", both[0], "", both[1])
    yield Line("softmax of a middle axis", "xp.softmax(T, axis=1)", "", "xp.softmax(T, 1)")


ROWS: Final = tuple(_normalizations())

COPIES: Final = (
    Line("copy", "xp.asarray(x, copy=True)", torch="x.clone()"),
    Line("transposed copy", "xp.asarray(X.T, copy=True)", "xp.array(X.T, order='C')", "X.T.contiguous()"),
    Line(
        "copy with swapped axes",
        "xp.asarray(xp.permute_dims(T, (0, 2, 1)), copy=True)",
        "xp.array(T.transpose(0, 2, 1), order='C')",
        "T.permute(0, 2, 1).contiguous()",
    ),
    Line(
        "copy with the first axis last",
        "xp.asarray(xp.permute_dims(T, (1, 2, 0)), copy=True)",
        "xp.array(T.transpose(1, 2, 0), order='C')",
        "T.permute(1, 2, 0).contiguous()",
    ),
    Line(
        "transposed copy float64",
        "xp.asarray(E.T, copy=True)",
        "xp.array(E.T, order='C')",
        "E.T.contiguous()",
    ),
    Line(
        "copy of every second",
        "xp.asarray(X[:, ::2], copy=True)",
        "xp.array(X[:, ::2], order='C')",
        "X[:, ::2].contiguous()",
    ),
    Line("concat", "xp.concat([x, v])", "xp.concatenate([x, v])", "xp.cat([x, v])"),
    Line("concat axis 1", "xp.concat([X, Y], axis=1)", "xp.concatenate([X, Y], axis=1)", "xp.cat([X, Y], 1)"),
    Line("stack", "xp.stack([x, v])"),
    Line("stack last axis", "xp.stack([x, v], axis=-1)", torch="xp.stack([x, v], -1)"),
    Line("roll", "xp.roll(x, 1000, axis=0)", torch="xp.roll(x, 1000, 0)"),
    Line("roll axis 1", "xp.roll(X, 3, axis=1)", torch="xp.roll(X, 3, 1)"),
    Line("flip", "xp.flip(x, axis=0)", "xp.flip(x, axis=0).copy()", "xp.flip(x, (0,))"),
    Line("flip axis 1", "xp.flip(X, axis=1)", "xp.flip(X, axis=1).copy()", "xp.flip(X, (1,))"),
    Line("pad", "xp.pad(X, ((1, 1), (1, 1)))", torch="F.pad(X, (1, 1, 1, 1))"),
    Line("repeat", "xp.repeat(x, 3)", torch="xp.repeat_interleave(x, 3)"),
    Line("repeat rows", "xp.repeat(X, 2, axis=0)", torch="xp.repeat_interleave(X, 2, 0)"),
    Line("tile", "xp.tile(X, (2, 2))"),
    Line(
        "broadcast to an array",
        "xp.asarray(xp.broadcast_to(row, matrix), copy=True)",
        "xp.broadcast_to(row, matrix).copy()",
        "xp.broadcast_to(row, matrix).clone(memory_format=xp.contiguous_format)",
    ),
    Line("lower triangle", "xp.tril(X)"),
)

SORTING: Final = (
    Line("sort float32", "xp.sort(x)"),
    Line("sort float64", "xp.sort(d)"),
    Line("sort int32", "xp.sort(i)"),
    Line("sort int64", "xp.sort(wide)"),
    Line("sort rows", "xp.sort(X, axis=1)", torch="xp.sort(X, 1)"),
    Line("sort columns", "xp.sort(X, axis=0)", torch="xp.sort(X, 0)"),
    Line("argsort float32", "xp.argsort(x)", "xp.argsort(x, stable=True)", "xp.argsort(x, stable=True)"),
    Line("argsort int64", "xp.argsort(wide)", "xp.argsort(wide, stable=True)", "xp.argsort(wide, stable=True)"),
    Line(
        "argsort rows",
        "xp.argsort(X, axis=1)",
        "xp.argsort(X, axis=1, stable=True)",
        "xp.argsort(X, dim=1, stable=True)",
    ),
    Line("topk 10", "xp.topk(x, 10)", "xp.sort(xp.partition(x, -10)[-10:])[::-1]"),
    Line(
        "topk 10 of rows",
        "xp.topk(X, 10, axis=1)",
        "xp.sort(xp.partition(X, -10, axis=1)[:, -10:], axis=1)[:, ::-1]",
        "xp.topk(X, 10, 1)",
    ),
    Line("searchsorted", "xp.searchsorted(sorted, x)"),
    Line("searchsorted in 1,024", "xp.searchsorted(sorted[:1024], x)"),
    Line("unique float32", "xp.unique_values(x)", "xp.unique(x)", "xp.unique(x)"),
    Line("unique of repeated int64", "xp.unique_values(few)", "xp.unique(few)", "xp.unique(few)"),
    Line(
        "unique with inverse",
        "xp.unique_inverse(few)",
        "xp.unique(few, return_inverse=True)",
        "xp.unique(few, return_inverse=True)",
    ),
)

INDEXING: Final = (
    Line("gather numbers", "x[at]"),
    Line("take numbers", "xp.take(x, at, axis=0)", torch="xp.take(x, at)"),
    Line("gather rows", "X[rows]"),
    Line("take rows", "xp.take(X, rows, axis=0)", torch="xp.index_select(X, 0, rows)"),
    Line("take columns", "xp.take(X, rows, axis=1)", torch="xp.index_select(X, 1, rows)"),
    Line("take_along_axis 1", "xp.take_along_axis(X, AT, axis=1)", torch="xp.take_along_dim(X, AT, 1)"),
    Line("take_along_axis 0", "xp.take_along_axis(X.T, AT.T, axis=0)", torch="xp.take_along_dim(X.T, AT.T, 0)"),
    Line("select by a mask", "x[m]"),
    Line("nonzero", "xp.nonzero(m)", torch="xp.nonzero(m, as_tuple=True)"),
    Line("scatter_add", "xp.scatter_add(z, at, x, axis=0)", "", "xp.scatter_add(z, 0, at, x)"),
    Line("scatter_add axis 1", "xp.scatter_add(Z, AT, X, axis=1)", "", "xp.scatter_add(Z, 1, AT, X)"),
    Line("index_add rows", "xp.index_add(Z, rows, X, axis=0)", "", "xp.index_add(Z, 0, rows, X)"),
    Line("index_put", "z[once] = x", result="z"),
    Line("index_put rows", "Z[rows] = 1.0", result="Z"),
    Line("index_put a mask", "z[m] = 0.5", result="z"),
    Line("bincount", "xp.bincount(few)"),
)

RANDOM: Final = (
    Line("uniform", "xp.random.uniform((size,))", "rng.random(size, xp.float32)", "xp.rand(size)", random=True),
    Line("normal", "xp.random.normal((size,))", "rng.standard_normal(size, xp.float32)", "xp.randn(size)", random=True),
    Line(
        "integers",
        "xp.random.integers(0, 100, (size,))",
        "rng.integers(0, 100, size)",
        "xp.randint(0, 100, (size,))",
        random=True,
    ),
    Line(
        "uniform float64",
        "xp.random.uniform((size,), dtype=xp.float64)",
        "rng.random(size)",
        "xp.rand(size, dtype=xp.float64)",
        random=True,
    ),
    Line(
        "normal float64",
        "xp.random.normal((size,), dtype=xp.float64)",
        "rng.standard_normal(size)",
        "xp.randn(size, dtype=xp.float64)",
        random=True,
    ),
    Line("permutation", "xp.random.permutation(size)", "rng.permutation(size)", "xp.randperm(size)", random=True),
)

BATCHED: Final = (
    *(Line(f"batch of {side} x {side}", f"C{side} @ D{side}") for side in (16, 32, 48, 64, 128)),
    Line("batch times one matrix", "C64 @ A64"),
    Line(
        "batch of 64 x 64, second transposed",
        "C64 @ xp.permute_dims(D64, (0, 2, 1))",
        "C64 @ D64.transpose(0, 2, 1)",
        "C64 @ D64.transpose(1, 2)",
    ),
)

PRODUCTS: Final = (
    *(Line(f"{side} x {side}", f"A{side} @ B{side}") for side in (256, 512, 1024, 2048)),
    Line("1024 x 1024, second transposed", "A1024 @ B1024.T"),
    Line("1024 x 300 @ 300 x 700", "A1024[:, :300] @ B1024[:300, :700]"),
    Line("1024 x 1024 @ vector", "A1024 @ B1024[0]"),
)
