"""NumPy's files: both ways, and what is refused of them."""

from __future__ import annotations

import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tenkey as tk
from tenkey.serialization import _numpy_files
from tests._serialization import DTYPES, equal

# ---- NumPy's files


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_npy_both_ways(dtype: np.dtype[Any], tmp_path: Path) -> None:
    name = str(tmp_path / "x.npy")
    base = np.arange(2 * 3).reshape(2, 3).astype(dtype)
    for array in (base, base.T, base[:0], base[1, 1], base[:, ::2]):
        tk.save(tk.asarray(array), name)
        np.testing.assert_array_equal(np.load(name, allow_pickle=False), array)
        np.save(name, array)
        assert equal(tk.load(name), tk.asarray(np.array(array)))
    if dtype.itemsize > 1:
        np.save(name, base.astype(dtype.newbyteorder(">")))
        assert equal(tk.load(name), tk.asarray(base))


@pytest.mark.parametrize("savez", [np.savez, np.savez_compressed])
def test_npz_both_ways(savez: Any, tmp_path: Path) -> None:
    name = str(tmp_path / "x.npz")
    tk.save({"a": tk.ones((2, 3)).T, "b/c": np.arange(3), "n": 2.5}, name)
    with np.load(name, allow_pickle=False) as read:
        assert {k: read[k].tolist() for k in read} == {"a": [[1.0, 1.0]] * 3, "b/c": [0, 1, 2], "n": 2.5}
    savez(name, a=np.ones((2, 3), order="F"), z=np.zeros(0))
    back = tk.load(name)
    assert equal(back, {"a": tk.asarray(np.ones((2, 3))), "z": tk.asarray(np.zeros(0))})
    tk.save({}, name)
    assert tk.load(name) == {}
    for wrong in (tk.ones(2), [1], {1: tk.ones(2)}, {"a": {"b": tk.ones(1)}}, {"a": "text"}):
        with pytest.raises(TypeError, match=r"\.npz file holds"):
            tk.save(wrong, name)
    with pytest.raises(TypeError, match=r"\.npy file holds"):
        tk.save({"a": 1}, str(tmp_path / "x.npy"))


class _Evil:
    def __reduce__(self) -> Any:
        return (exec, ("raise SystemExit('it ran')",))


def test_nothing_is_unpickled_unless_asked_for(tmp_path: Path) -> None:
    name = str(tmp_path / "x.npy")
    np.save(name, np.array([_Evil()], object), allow_pickle=True)
    with pytest.raises(ValueError, match="allow_pickle=True"):
        tk.load(name)
    with pytest.raises(SystemExit, match="it ran"):
        tk.load(name, allow_pickle=True)
    np.savez(name + ".npz", a=np.array([None, 1], object), allow_pickle=True)
    with pytest.raises(ValueError, match="allow_pickle=True"):
        tk.load(name + ".npz")
    (tmp_path / "x.pkl").write_bytes(pickle.dumps(_Evil()))
    with pytest.raises(ValueError, match="looks like a pickle"):
        tk.load(tmp_path / "x.pkl")
    np.save(name, np.array([None, 1], object), allow_pickle=True)
    assert tk.load(name, allow_pickle=True).tolist() == [None, 1]


def test_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = str(tmp_path / "x.npz")
    np.savez_compressed(name, a=np.zeros(3_000_000))
    assert tk.load(name)["a"].shape == (3_000_000,)
    monkeypatch.setattr(_numpy_files, "_FREE", 1 << 20)
    with pytest.raises(ValueError, match="made to fill the memory"):
        tk.load(name)


@pytest.mark.parametrize(
    "header",
    [
        b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }",
        b"{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }",
        b"{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296, 4294967296, 0), }",
        b"{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296), }",
        b"{'descr': 'O', 'fortran_order': False, 'shape': (1,), }",
        b"{'descr': '<U4', 'fortran_order': False, 'shape': (1,), }",
        b"{'descr': '<V8', 'fortran_order': False, 'shape': (1,), }",
        b"{'descr': [('a', '<f8')], 'fortran_order': False, 'shape': (1,), }",
        b"{'descr': '<f3', 'fortran_order': False, 'shape': (1,), }",
        b"__import__('os').abort()",
        b"[" * 5000,
        b"{" * 9000,
        b"",
    ],
)
def test_hostile_npy_headers(header: bytes, tmp_path: Path) -> None:
    data = b"\x93NUMPY\x02\x00" + len(header).to_bytes(4, "little") + header + bytes(16)
    (tmp_path / "x.npy").write_bytes(data)
    with pytest.raises(ValueError, match=r"\[load\]"):
        tk.load(tmp_path / "x.npy")
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("a.npy", data)
    with pytest.raises(ValueError, match=r"\[load\]"):
        tk.load(tmp_path / "x.npz")


def test_archives_of_others(tmp_path: Path) -> None:
    for member in ("../../evil", "a.txt", "data.pkl"):
        with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
            archive.writestr(member, b"x")
        with pytest.raises(ValueError, match="it has the member"):
            tk.load(tmp_path / "x.npz")
