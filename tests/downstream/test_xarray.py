"""xarray around tensors: ``.data`` stays a tensor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tenkey as tk

xr = pytest.importorskip("xarray", minversion="2025.1")

VALUES = np.array([[1.0, 2.0, np.nan, 4.0], [5.0, 6.0, 7.0, 8.0], [9.0, 1.5, 0.5, 3.0]])


def _array(values: Any = VALUES) -> Any:
    return xr.DataArray(values, dims=("x", "y"), coords={"x": [10, 20, 30]}, name="v")


PROGRAMS = {
    "arithmetic": lambda d: (2 * d + d**2 - 1) / abs(d),
    "comparison": lambda d: (d > 3) & (d < 8),
    "ufunc": lambda d: np.sin(d) + np.hypot(d, 2.0),
    "own ufuncs": lambda d: xr.ufuncs.exp(d / 4),
    "selection": lambda d: d.sel(x=20)[::2],
    "list selection": lambda d: d.isel(x=[0, 2], y=slice(None, None, -1)),
    "alignment": lambda d: d + d.isel(x=slice(1, None)),
    "transpose": lambda d: d.T.stack(z=("x", "y")),
    "where": lambda d: xr.where(d.isnull(), 0, d).where(d > 2, -1),
    "fillna": lambda d: d.fillna(0).clip(1, 5),
    "groupby": lambda d: d.groupby("x").mean(),
    "groupby labels": lambda d: d.assign_coords(g=("x", ["a", "b", "a"])).groupby("g").sum(),
    "concat": lambda d: xr.concat([d, d], "x"),
    "shift": lambda d: d.shift(x=1).pad(y=1).roll(y=2).diff("y"),
    "coarsen": lambda d: d.coarsen(y=2).mean(),
    "dot": lambda d: xr.dot(d, d, dim="y"),
    "weighted": lambda d: d.weighted(d.isel(y=0, drop=True) * 0 + 2).mean("x"),
    "weights that are arrays": lambda d: d.weighted(xr.ones_like(d.x, dtype=float)).var("x"),
    "polynomial": lambda d: xr.polyval(d, xr.DataArray([1.0, 2.0], dims="degree", coords={"degree": [0, 1]})),
    "correlation": lambda d: xr.corr(d, d**2, "x"),
    "apply_ufunc": lambda d: xr.apply_ufunc(lambda v: v * v, d),
    "dataset": lambda d: (xr.Dataset({"a": d, "b": d.isel(y=0)}) + 1).mean()["a"],
    "quantile": lambda d: d.quantile(0.3, "x"),
    "quantiles": lambda d: d.quantile([0.25, 0.5], skipna=False),
    "cumsum": lambda d: d.cumsum("x", skipna=False),
    "integral": lambda d: d.cumulative_integrate("x"),
    "reindex": lambda d: d.reindex(x=[10, 40]).sortby("x"),
    "astype": lambda d: d.fillna(0).astype("float32").round(),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name: str) -> None:
    got, want = PROGRAMS[name](_array(tk.asarray(VALUES.copy()))), PROGRAMS[name](_array())
    assert type(got.data) is tk.Tensor
    assert got.dims == want.dims
    assert got.dtype == want.dtype
    np.testing.assert_allclose(got.data.numpy(), want.values)


@pytest.mark.parametrize(
    "name", ["sum", "mean", "max", "min", "std", "var", "prod", "count", "median", "cumsum", "all"]
)
@pytest.mark.parametrize("skipna", [True, False])
def test_reductions(name: str, skipna: bool) -> None:
    if not skipna and name in {"std", "var", "cumsum"}:
        pytest.skip("there xarray calls functions of NumPy's name and arguments, which the standard does not have")
    options = {} if name in {"count", "all"} else {"skipna": skipna}
    for dim in ("x", ...):
        if name == "cumsum" and dim is ...:
            continue
        got = getattr(_array(tk.asarray(VALUES.copy())), name)(dim, **options)
        assert type(got.data) is tk.Tensor
        np.testing.assert_allclose(got.data.numpy(), getattr(_array(), name)(dim, **options).values)


def test_sample_variance() -> None:
    got = _array(tk.asarray(VALUES.copy())).var("y", ddof=1)
    np.testing.assert_allclose(got.data.numpy(), _array().var("y", ddof=1).values)


def test_assignment_display_and_copies() -> None:
    d = _array(tk.asarray(VALUES.copy()))
    other = d.copy(deep=True)
    other[0, 2] = 5.0
    other.loc[{"x": 20}] = 1.0
    assert type(other.data) is tk.Tensor
    assert other.data[0, 2].item() == 5
    assert other.sel(x=20).data.tolist() == [1, 1, 1, 1]
    assert np.isnan(d.data[0, 2].item())  # the copy is one
    xr.testing.assert_identical(d, d.copy())
    assert not d.equals(other)
    assert "xarray.DataArray" in repr(d)
    assert "v" in d._repr_html_()
    np.testing.assert_array_equal(d.values, VALUES)


def test_gradients_go_through() -> None:
    w = tk.tensor([1.0, 2.0, 3.0], requires_grad=True)
    loss = (xr.DataArray(w, dims="x") ** 2).sum()
    loss.data.backward()
    assert w.grad.tolist() == [2, 4, 6]
