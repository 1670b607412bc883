"""jaxtyping's annotations of shapes and dtypes; Hypothesis' strategies for a namespace of the standard."""

from __future__ import annotations

import pytest

import tenkey as tk


def test_jaxtyping() -> None:
    jaxtyping = pytest.importorskip("jaxtyping", minversion="0.2.34")
    x = tk.ones((2, 3))
    holds = {"Float": True, "Float32": True, "Float64": False, "Int": False, "Inexact": True, "Shaped": True}
    for name, expected in holds.items():
        assert isinstance(x, getattr(jaxtyping, name)[tk.Tensor, "a b"]) is expected, name
    assert not isinstance(x, jaxtyping.Float[tk.Tensor, "a a"])
    assert not isinstance(x, jaxtyping.Float[tk.Tensor, "a"])
    assert isinstance(x, jaxtyping.Float[tk.Tensor, "... 3"])
    assert isinstance(tk.ones(2, dtype=tk.bool), jaxtyping.Bool[tk.Tensor, "2"])
    assert isinstance(tk.ones((), dtype=tk.complex64), jaxtyping.Complex[tk.Tensor, ""])
    pytest.importorskip("ml_dtypes")
    assert isinstance(tk.ones(2, dtype=tk.bfloat16), jaxtyping.BFloat16[tk.Tensor, "2"])


def test_jaxtyping_sizes_agree_between_arguments() -> None:
    jaxtyping = pytest.importorskip("jaxtyping", minversion="0.2.34")

    def checked(x: tk.Tensor, y: tk.Tensor) -> bool:
        with jaxtyping.jaxtyped("context"):
            return all(isinstance(t, jaxtyping.Float[tk.Tensor, "n"]) for t in (x, y))

    assert checked(tk.ones(2), tk.ones(2))
    assert not checked(tk.ones(2), tk.ones(3))


def test_hypothesis_strategies() -> None:
    hypothesis = pytest.importorskip("hypothesis", minversion="6.112")
    st = hypothesis.strategies
    extra = pytest.importorskip("hypothesis.extra.array_api")
    xps = extra.make_strategies_namespace(tk)

    @hypothesis.settings(max_examples=30, deadline=None, derandomize=True, database=None)
    @hypothesis.given(st.data())
    def examine(data: st.DataObject) -> None:
        dtype = data.draw(xps.scalar_dtypes())
        x = data.draw(xps.arrays(dtype, xps.array_shapes()))
        assert type(x) is tk.Tensor
        assert x.dtype == dtype
        part = x[data.draw(xps.indices(x.shape))]
        assert type(part) is tk.Tensor
        axes = data.draw(xps.valid_tuple_axes(x.ndim))
        assert tk.sum(x != x, axis=axes).ndim == x.ndim - len(axes)
        pair = data.draw(xps.mutually_broadcastable_shapes(2))
        assert tk.broadcast_shapes(*pair.input_shapes) == pair.result_shape

    examine()
