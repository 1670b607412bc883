"""What the host chooses for a launch: vectors at aligned addresses, 64 bits for far places, parts of a long row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.core.storage import StridedArray
from tenkey.library import scalar as s
from tests.backends.cuda._emulated import emulated, on_device

pytest.importorskip("numba_cuda", reason="needs the extra cuda")

from tenkey.backends.cuda.kernels.launches import Launcher
from tenkey.backends.cuda.kernels.pointwise import pointwise
from tenkey.backends.cuda.kernels.reduction import reduction
from tenkey.backends.external.scalar_function import Operand, ScalarFunction

F4, U1 = np.dtype("f4"), np.dtype("u1")
X, Y = s.variable("x"), s.variable("y")


@pytest.fixture(scope="module", autouse=True)
def _emulator() -> Iterator[None]:
    with emulated():
        yield


@pytest.fixture
def forms(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the kernels that are launched from now on."""
    names: list[str] = []
    original = Launcher.on

    def on(self: Launcher, device: int) -> Any:
        names.append(self.source.name)
        return original(self, device)

    monkeypatch.setattr(Launcher, "on", on)
    return names


def _sum_of(dtype: np.dtype) -> Any:
    scalar = ScalarFunction("sum", ("x", "y"), X + Y, dtype)
    return pointwise(scalar, (Operand("x", dtype, False), Operand("y", dtype, False)), dtype)


class TestPointwise:
    @pytest.mark.parametrize("place", ["out", "x", "y"])
    def test_vectors_only_at_addresses_that_are_multiples_of_16_bytes(self, place: str, forms: list[str]) -> None:
        kernel, values = _sum_of(F4), np.arange(40, dtype=F4)
        for first in range(6):
            windows = {name: on_device(values)[4:36] for name in ("out", "x", "y")}
            windows[place] = on_device(values)[first : first + 32]
            kernel(windows["out"].array, windows["x"].array, windows["y"].array)
            assert forms.pop() == ("sum_vector_float32" if first % 4 == 0 else "sum_row_float32"), first
            wanted = dict.fromkeys(("x", "y"), values[4:36]) | {place: values[first : first + 32]}
            np.testing.assert_array_equal(windows["out"].numpy(), wanted["x"] + wanted["y"])

    def test_vectors_of_bytes_at_addresses_that_are_multiples_of_4(self, forms: list[str]) -> None:
        kernel, values = _sum_of(U1), np.arange(40, dtype=U1)
        for first in range(6):
            x = on_device(values, U1)
            out = on_device(values, U1)
            kernel(out[:32].array, x[first : first + 32].array, x[:32].array)
            assert forms.pop() == ("sum_vector_uint8" if first % 4 == 0 else "sum_row_uint8"), first
            np.testing.assert_array_equal(out.numpy()[:32], values[first : first + 32] + values[:32])

    @pytest.mark.parametrize("step", [(1 << 31) + 1, -3])
    @pytest.mark.parametrize("place", ["out", "x"])
    def test_places_that_need_more_than_31_bits(self, step: int, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """A step that is far, or backwards, reaches the kernel as it is, in 64 bits. Nothing is executed."""
        launched: list[tuple[Any, ...]] = []
        small = tk.ones(2, dtype=tk.uint8, device="cuda").array
        monkeypatch.setattr(Launcher, "__call__", lambda self, *given: launched.append((self.source, *given)))
        far = small.window((2,), (step,), 0)
        _sum_of(U1)(far if place == "out" else small, far if place == "x" else small, small)
        ((source, _, _, _, *arguments),) = launched
        assert source.name == "sum_strided1_64_uint8"
        given = dict(zip(("n", "out", "out_0", "x0", "x0_0", "x1", "x1_0"), arguments, strict=True))
        assert given[{"out": "out_0", "x": "x0_0"}[place]] == step % (1 << 64)
        assert source.parameters == ("uint64", *("uint8*", "uint64") * 3)

    def test_places_below_32_bits(self, forms: list[str]) -> None:
        x, out = on_device(np.arange(8)), on_device(np.zeros(4))
        _sum_of(F4)(out.array, x[::2].array, x[1::2].array)
        assert forms == ["sum_strided1_float32"]
        assert out.tolist() == [1, 5, 9, 13]


class TestReduction:
    def _reduced(self, rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
        scratched: list[StridedArray] = []

        def scratch(shape: tuple[int, ...], dtype: np.dtype, device: Any) -> StridedArray:
            made: StridedArray = tk.full(shape, 9999, dtype=str(dtype), device="cuda").array
            scratched.append(made)
            return made

        combine, same = ScalarFunction("add", ("a", "b"), s.variable("a") + s.variable("b"), F4), ScalarFunction(
            "same", ("x",), X, F4
        )  # fmt: skip
        values = np.random.default_rng(0).integers(-9, 9, (rows, columns)).astype(F4)
        out = on_device(np.zeros(rows))
        reduction(combine, same, F4, scratch)(out.array, on_device(values).array)
        return out.numpy(), values.sum(1)

    @pytest.mark.parametrize(("rows", "columns"), [(1, 1 << 16), (1, 70_001), (2, 33_000), (40, 300)])
    def test_rows_in_parts(self, rows: int, columns: int) -> None:
        np.testing.assert_array_equal(*self._reduced(rows, columns))

    def test_no_part_of_a_row_is_empty(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A part without elements would combine what is not in the row: for many functions no value stands for none."""
        launched: list[tuple[Any, ...]] = []
        monkeypatch.setattr(Launcher, "__call__", lambda self, device, grid, block, *given: launched.append(given))
        given = tk.empty(1 << 22, dtype=tk.float32, device="cuda").array
        rng = np.random.default_rng(1)
        for columns in (1025, 4096, 4097, 1 << 20, *rng.integers(1025, 1 << 20, 50).tolist()):
            for rows in (1, 3):
                combine = ScalarFunction("add", ("a", "b"), s.variable("a") + s.variable("b"), F4)
                kernel = reduction(
                    combine, ScalarFunction("same", ("x",), X, F4), F4, lambda *shape: given.window(*_plain(shape[0]))
                )
                kernel(given.window(*_plain((rows,))), given.window(*_plain((rows, columns))))
                pieces, splits = launched[0][1], launched[0][-1]  # elements, or vectors of four
                assert pieces in (columns, columns / 4)
                chunk = -(-pieces // splits)
                assert (splits - 1) * chunk < pieces <= splits * chunk, (rows, columns, splits)
                launched.clear()

    def test_rows_of_vectors(self, forms: list[str]) -> None:
        """Rows are read in vectors if each begins at an aligned address and has a whole number of them."""
        values = np.random.default_rng(0).integers(-9, 9, (6, 1208)).astype(F4)
        x = on_device(values)
        for view, form in (
            (np.s_[:, :128], "warp_vector"), (np.s_[:, :1024], "warp_vector"), (np.s_[:, 4:1204], "block_vector"),
            (np.s_[0, :1200], "block_vector"), (np.s_[:, :127], "warp"), (np.s_[:, :126], "warp"),
            (np.s_[:, 2:130], "warp"), (np.s_[:, :64], "warp"), (np.s_[:, ::2], "warp"), (np.s_[:, 1:1201], "block"),
            (np.s_[::2, :512], "warp_vector"),
        ):  # fmt: skip
            found = tk.max(x[view], axis=-1)
            assert forms.pop().split("_combine_")[1].removesuffix("_float32") == form, view
            np.testing.assert_array_equal(found.numpy(), values[view].max(-1))
        odd = on_device(np.arange(6 * 130).reshape(6, 130))[:, :128]  # steps that are no multiple of a vector
        assert tk.max(odd, axis=-1).tolist() == [130 * row + 127 for row in range(6)]
        assert forms.pop().endswith("_warp_float32")

    @pytest.mark.parametrize("step", [(1 << 31) + 4, -4])
    def test_places_that_need_more_than_31_bits(self, step: int, monkeypatch: pytest.MonkeyPatch) -> None:
        launched: list[tuple[Any, ...]] = []
        monkeypatch.setattr(Launcher, "__call__", lambda self, *given: launched.append((self.source, *given)))
        x, out = tk.ones(64, dtype=tk.float32, device="cuda").array, tk.ones(2, dtype=tk.float32, device="cuda").array
        combine = ScalarFunction("add", ("a", "b"), s.variable("a") + s.variable("b"), F4)
        kernel = reduction(combine, ScalarFunction("same", ("x",), X, F4), F4, lambda *_: None)  # type: ignore[arg-type]
        for row_step, kind in ((step * 4, "uint64"), (128, "uint32")):
            kernel(out, x.window((2, 32), (row_step, 4), 0))
            source, *_, given, _ = launched.pop()
            assert source.parameters == (kind, kind, "float32*", "float32*", kind, kind)
            assert given == row_step // 4 % (1 << 64)


def _plain(shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    return shape, tuple([4 * int(np.prod(shape[axis + 1 :])) for axis in range(len(shape))]), 0
