"""tk.save and tk.load: what goes in comes out, other programs read it, and damaged or hostile files are refused."""

from __future__ import annotations

import collections
import io
import json
import math
import os
import pickle
import stat
import subprocess
import sys
import threading
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
import safetensors.numpy
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tenkey as tk
from tenkey.core import dtypes
from tenkey.core.word import tensor_dtype
from tenkey.serialization import _files, _numpy_files, _safetensors

Pair = collections.namedtuple("Pair", ["first", "second"])  # noqa: PYI024
DTYPES = [d for d in dtypes.all_dtypes() if d.name != "bfloat16"]


_SETTINGS = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True)


def equal(a: Any, b: Any) -> bool:
    """The same tree: kinds, keys in order, values to the bit, gradients asked for."""
    if isinstance(a, tk.Tensor):
        return isinstance(b, tk.Tensor) and a.requires_grad == b.requires_grad and equal(_np(a), _np(b))
    if isinstance(a, np.ndarray):
        same = type(a) is type(b) and a.dtype == b.dtype and a.shape == b.shape
        return same and np.ascontiguousarray(a).tobytes() == np.ascontiguousarray(b).tobytes()
    if isinstance(a, dict):
        return type(b) is dict and repr(list(a)) == repr(list(b)) and all(map(equal, a.values(), b.values()))
    if isinstance(a, (list, tuple)):
        names = getattr(a, "_fields", None) == getattr(b, "_fields", None) and isinstance(a, list) == isinstance(
            b, list
        )
        return (
            names
            and isinstance(b, type(a) if names is None else (list, tuple))
            and len(a) == len(b)
            and all(map(equal, a, b))
        )
    if isinstance(a, (float, complex)):
        return type(a) is type(b) and repr(a) == repr(b)
    return type(a) is type(b) and a == b


def _np(t: Any) -> np.ndarray[Any, Any]:
    return t.detach().numpy()  # type: ignore[no-any-return]


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "file.safetensors")


def roundtrip(obj: Any, path: str, **options: Any) -> Any:
    tk.save(obj, path)
    return tk.load(path, **options)


# ---- trees


@pytest.mark.parametrize("mmap", [True, False])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dtypes_and_layouts(dtype: np.dtype[Any], path: str, mmap: bool) -> None:
    base = np.random.default_rng(0).integers(0, 2, (4, 5, 6)).astype(dtype)
    x = tk.asarray(base)
    tree = {
        "c": x, "fortran": tk.asarray(np.asfortranarray(base)), "steps": x[::2, :, ::3],
        "moved": tk.permute_dims(x, (2, 0, 1)),
        "zero-d": x[1, 2, 3], "empty": x[:0], "broadcast": tk.broadcast_to(x[0, 0], (3, 6)), "array": base.T,
    }  # fmt: skip
    assert equal(tree, roundtrip(tree, path, mmap=mmap))


def test_bfloat16(path: str) -> None:
    try:
        dtype = tensor_dtype("bfloat16")
    except TypeError:
        pytest.skip("no bfloat16 tensors")
    x = tk.asarray([1.0, -2.5, math.inf]).astype(dtype)
    back = roundtrip({"x": x}, path)["x"]
    assert back.dtype == dtype
    assert back.astype("float32").tolist() == [1.0, -2.5, math.inf]
    with pytest.raises(TypeError, match=r"safetensors"):
        tk.save(x, path + ".npy")


def test_python_values(path: str) -> None:
    tree = [
        None, True, False, 0, -1, 10**40, 0.0, -0.0, 1e-320, math.inf, -math.inf, math.nan, 1 + 2j,
        complex(math.nan, -0.0), "", "ä\n\0🙂",
        "\ud800", {}, [], (), {"": 1, 1: 2, 1.5: 3, None: 4, math.inf: 6}, Pair(1, [2]), ((),), {True: 1},
    ]  # fmt: skip
    assert equal(tree, roundtrip(tree, path))
    assert roundtrip(Pair(1, 2), path)._fields == ("first", "second")
    assert roundtrip(5, path) == 5
    scalar = roundtrip(np.float16(1.5), path)
    assert type(scalar) is np.float16
    assert scalar == 1.5


def test_generators_go_on_where_they_were(path: str) -> None:
    g = tk.random.Generator(5)
    tk.random.normal(3, generator=g)
    again = roundtrip({"g": g}, path)["g"]
    assert tk.random.normal(4, generator=g).tolist() == tk.random.normal(4, generator=again).tolist()


def test_gradients(path: str) -> None:
    w = tk.tensor([1.0, 2.0], requires_grad=True)
    back = roundtrip({"leaf": w, "result": w * 2, "plain": w.detach()}, path)
    assert {k: (v.requires_grad, v.is_leaf) for k, v in back.items()} == {
        "leaf": (True, True), "result": (False, True), "plain": (False, True),
    }  # fmt: skip
    (back["leaf"] * 3).sum().backward()
    assert back["leaf"].grad.tolist() == [3.0, 3.0]


def test_what_occurs_twice_is_stored_once(path: str) -> None:
    x = tk.ones(1000)
    back = roundtrip({"a": x, "b": [x], "view": x[:500]}, path)
    assert back["a"] is back["b"][0]
    assert not tk.shares_storage(back["a"], back["view"])
    assert Path(path).stat().st_size < 4 * 1500 + 1000


def test_names_that_collide(path: str) -> None:
    tree = {"a": {"b": tk.ones(1)}, "a.b": tk.zeros(1), "__metadata__": tk.ones(2), "": tk.zeros(3)}
    assert equal(tree, roundtrip(tree, path))


def test_metadata(path: str) -> None:
    tk.save({"x": tk.ones(1)}, path, metadata={"author": "me", "ü": "🙂"})
    assert tk.load(path, with_metadata=True)[1] == {"author": "me", "ü": "🙂"}
    for wrong, error in (
        ({"a": 1}, TypeError),
        ({1: "a"}, TypeError),
        ({"tenkey.structure": ""}, ValueError),
        ({"a": "\ud800"}, ValueError),
    ):
        with pytest.raises(error, match="metadata"):
            tk.save(1, path, metadata=wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="hold no metadata"):
        tk.save(tk.ones(1), path + ".npy", metadata={"a": "b"})


@pytest.mark.parametrize(
    ("tree", "error", "words"),
    [
        ({"a": [1, object()]}, TypeError, r"\['a'\]\[1\] is of type object"),
        ({"a": {1, 2}}, TypeError, "type set"),
        (b"bytes", TypeError, "the object is of type bytes"),
        ({(1, 2): 1}, TypeError, "has the key"),
        (np.array(["text"]), TypeError, "dtype <U4"),
        (np.array([object()]), TypeError, "dtype object"),
        (np.zeros(2, "M8[s]"), TypeError, "datetime64"),
    ],
)
def test_what_cannot_be_saved(tree: Any, error: type[Exception], words: str, path: str) -> None:
    tk.save("old", path)
    with pytest.raises(error, match=words):
        tk.save(tree, path)
    assert tk.load(path) == "old"
    assert os.listdir(Path(path).parent) == ["file.safetensors"]  # noqa: PTH208


def test_trees_without_end(path: str) -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(ValueError, match="contains itself"):
        tk.save(endless, path)
    with pytest.raises(ValueError, match="which has no values"):
        tk.save(tk.ones(2, device="meta"), path)
    deep: Any = 1
    for _ in range(100):
        deep = [deep]
    assert equal(deep, roundtrip(deep, path))


def test_arguments(path: str) -> None:
    with pytest.raises(TypeError, match="path must be"):
        tk.save(1, io.BytesIO())  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="path must be"):
        tk.load(3)  # type: ignore[arg-type]
    with pytest.raises(FileNotFoundError):
        tk.load(path)
    with pytest.raises(FileNotFoundError):
        tk.save(1, path + "/no/such/folder")
    with pytest.raises((ValueError, OSError)):
        tk.save(1, Path(path).parent)
    tk.save(1, Path(path))
    assert tk.load(os.fsencode(path)) == 1  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="unknown device"):
        tk.load(path, device="tpu")


def test_device(path: str) -> None:
    back = tk.save({"x": tk.ones(3)}, path) or tk.load(path, device="meta")
    assert back["x"].device.type == "meta"


def test_without_safetensors(path: str) -> None:
    program = f"""
import sys; sys.modules["safetensors"] = None; sys.modules["safetensors.numpy"] = None
import tenkey as tk
try: tk.save({{"x": tk.ones(2)}}, {path!r})
except ImportError as error: print(error)
open({path!r}, "wb").write((2).to_bytes(8, "little") + b"{{}}")
try: tk.load({path!r})
except ImportError as error: print(error)
tk.save({{"x": tk.ones(2)}}, {path!r} + ".npz"); print(tk.load({path!r} + ".npz")["x"].tolist())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.count("pip install 'tenkey[save]'") == 2
    assert "[1.0, 1.0]" in done.stdout
    program = "import sys, tenkey; print('safetensors' in sys.modules, 'zipfile' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split()[0] == "False"


SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.complex_numbers(), st.text(max_size=5))
ARRAYS = st.sampled_from(DTYPES).flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3))
)
LEAVES = st.one_of(SCALARS, ARRAYS, ARRAYS.map(tk.asarray), ARRAYS.map(lambda a: tk.asarray(a.T)))
KEYS = st.one_of(st.text(max_size=4), st.integers(), st.none())
TREES = st.recursive(
    LEAVES,
    lambda parts: st.one_of(
        st.lists(parts, max_size=3),
        st.lists(parts, max_size=3).map(tuple),
        st.dictionaries(KEYS, parts, max_size=3),
        st.builds(Pair, parts, parts),
    ),
    max_leaves=8,
)


@settings(_SETTINGS, max_examples=150)
@given(tree=TREES, mmap=st.booleans())
def test_any_tree(tree: Any, mmap: bool, path: str) -> None:
    assert equal(tree, roundtrip(tree, path, mmap=mmap))


# ---- other programs


def test_safetensors_reads_our_files(path: str) -> None:
    tk.save({"a": tk.arange(6).reshape((2, 3)).T, "b": {"c": tk.zeros((0, 2))}}, path)
    read = safetensors.numpy.load_file(path)
    np.testing.assert_array_equal(read["a"], [[0, 3], [1, 4], [2, 5]])
    assert read["b.c"].shape == (0, 2)


@pytest.mark.parametrize("dtype", [d for d in DTYPES if d.kind != "c"], ids=str)
def test_we_read_files_of_safetensors(dtype: np.dtype[Any], path: str) -> None:
    arrays = {"x": np.arange(2).astype(dtype), "y": np.ones((2, 0), dtype), "z": np.ones((), dtype)}
    safetensors.numpy.save_file(arrays, path, metadata={"format": "np"})
    back, metadata = tk.load(path, with_metadata=True)
    assert metadata == {"format": "np"}
    assert equal({k: tk.asarray(arrays[k]) for k in back}, back)
    assert back.keys() == arrays.keys()


def write(path: str, header: Any, data: bytes = b"", length: int | None = None) -> None:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    Path(path).write_bytes((len(text) if length is None else length).to_bytes(8, "little") + text + data)


def test_values_that_are_not_aligned(path: str) -> None:
    values = np.array([1.5, -2.5], "<f8")
    header = {
        "a": {"dtype": "U8", "shape": [3], "data_offsets": [0, 3]},
        "b": {"dtype": "F64", "shape": [2], "data_offsets": [3, 19]},
        "c": {"dtype": "C64", "shape": [1], "data_offsets": [19, 27]},
        "d": {"dtype": "BOOL", "shape": [3], "data_offsets": [27, 30]},
    }
    write(path, header, b"\1\2\3" + values.tobytes() + np.array([1 + 2j], "<c8").tobytes() + b"\0\1\7")
    back = tk.load(path)
    assert {k: v.tolist() for k, v in back.items()} == {
        "a": [1, 2, 3], "b": [1.5, -2.5], "c": [1 + 2j], "d": [False, True, True],
    }  # fmt: skip
    assert back["b"].numpy().flags.aligned


def test_writing_to_what_was_loaded_changes_no_file(path: str) -> None:
    tree = {"x": tk.zeros(2000), "y": tk.zeros(3)}
    tk.save(tree, path)
    before = Path(path).read_bytes()
    back = tk.load(path)
    back["x"][5] = 7.0
    back["x"] += 1.0
    assert back["x"][5].item() == 8.0
    assert back["y"].tolist() == [0.0] * 3
    assert Path(path).read_bytes() == before
    assert tk.load(path)["x"].numpy().max() == 0.0


def test_large_values_are_not_copied(path: str) -> None:
    tk.save({"x": tk.zeros(100_000)}, path)
    values = tk.load(path)["x"].numpy()
    root: Any = values
    while isinstance(root, np.ndarray):
        root = root.base
    assert type(root.obj if isinstance(root, memoryview) else root).__name__ == "mmap"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names")
def test_a_pipe_is_read(path: str, tmp_path: Path) -> None:
    tk.save({"x": tk.arange(5)}, path)
    pipe = str(tmp_path / "pipe")
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: Path(pipe).write_bytes(Path(path).read_bytes()))
    writer.start()
    assert tk.load(pipe)["x"].tolist() == [0, 1, 2, 3, 4]
    writer.join()


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="names of descriptors")
def test_the_library_judges_the_bytes_that_we_map(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The path may be another file as soon as we have opened it."""
    tk.save({"x": tk.arange(5)}, path)

    def replace(file: Any, content: memoryview, name: str) -> Any:
        tk.save({"x": tk.zeros((7, 7)), "y": tk.ones(2)}, name)
        return windows(file, content, name)

    windows = _safetensors._windows
    monkeypatch.setattr(_safetensors, "_windows", replace)
    assert tk.load(path)["x"].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("suffix", ["safetensors", "npz", "npy"])
def test_a_file_may_be_replaced_and_removed_while_it_is_used(tmp_path: Path, suffix: str) -> None:
    name = str(tmp_path / f"f.{suffix}")
    old = tk.zeros(50_000)
    tk.save(old if suffix == "npy" else {"x": old}, name)
    loaded = tk.load(name)
    x = loaded if suffix == "npy" else loaded["x"]
    new = x + 1.0
    tk.save(new if suffix == "npy" else {"x": new}, name)
    assert x.numpy().max() == 0.0
    again = tk.load(name)
    assert (again if suffix == "npy" else again["x"]).numpy().min() == 1.0
    tk.save(again, name)  # a tensor onto the file that it is a window of
    os.remove(name)  # noqa: PTH107
    assert (again if suffix == "npy" else again["x"]).numpy().min() == 1.0


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


# ---- damaged and hostile files


def entry(dtype: Any = "F32", shape: Any = (1,), offsets: Any = (0, 4)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


HOSTILE: list[tuple[Any, bytes, int | None]] = [
    ({}, b"", 1 << 63),
    ({}, b"", 3),
    ({}, b"", 1),
    ({}, b"", 0),
    ({}, b"x", None),
    (b"[]", b"", None),
    (b"null", b"", None),
    (b"{", b"", None),
    (b"{\xff}", b"", None),
    (b'{"a":' * 100_000, b"", None),
    (b'{"a":' + b"[" * 100_000 + b"}", b"", None),
    (b'{"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}}', bytes(4), None),
    ({"a": entry()}, b"", None),
    ({"a": entry()}, bytes(5), None),
    ({"a": entry(offsets=[1, 5])}, bytes(5), None),
    ({"a": entry(offsets=[4, 0])}, bytes(4), None),
    ({"a": entry(offsets=[-4, 0])}, bytes(4), None),
    ({"a": entry(offsets=[0, 4.0])}, bytes(4), None),
    ({"a": entry(offsets=[0])}, bytes(4), None),
    ({"a": entry(offsets="04")}, bytes(4), None),
    ({"a": entry(offsets=[0, 1 << 70])}, bytes(4), None),
    ({"a": entry(), "b": entry()}, bytes(4), None),
    ({"a": entry(), "b": entry(offsets=[2, 6])}, bytes(6), None),
    ({"a": entry(), "b": entry(offsets=[5, 9])}, bytes(9), None),
    ({"a": entry(shape=[2])}, bytes(4), None),
    ({"a": entry(shape=[-1])}, bytes(4), None),
    ({"a": entry(shape=[1.0])}, bytes(4), None),
    ({"a": entry(shape=[True])}, bytes(4), None),
    ({"a": entry(shape=[1] * 100)}, bytes(4), None),
    ({"a": entry(shape=[1 << 32, 1 << 32])}, bytes(4), None),
    ({"a": entry(shape=[1 << 62, 1 << 2])}, bytes(4), None),
    ({"a": entry(shape=[1 << 62, 1 << 62, 0], offsets=[0, 0])}, b"", None),
    ({"a": entry(shape=[1 << 80, 0], offsets=[0, 0])}, b"", None),
    ({"a": entry(dtype="F31")}, bytes(4), None),
    ({"a": entry(dtype="F8_E5M2", shape=[4])}, bytes(4), None),
    ({"a": entry(dtype="f32")}, bytes(4), None),
    ({"a": entry(dtype=7)}, bytes(4), None),
    ({"a": entry(dtype=["F32"])}, bytes(4), None),
    ({"a": 7}, b"", None),
    ({"a": {"dtype": "F32"}}, b"", None),
    ({"__metadata__": 7}, b"", None),
    ({"__metadata__": {"a": 7}}, b"", None),
    ({"__metadata__": {"tenkey.structure": "1"}}, b"", None),
    ({"__metadata__": {"tenkey.checksum": "1"}}, b"", None),
    ({"__metadata__": {"tenkey.structure": "1", "tenkey.checksum": "00000000"}}, b"", None),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(HOSTILE)))
@pytest.mark.parametrize("mmap", [True, False])
def test_hostile_headers(case: int, mmap: bool, path: str) -> None:
    write(path, *HOSTILE[case])
    with pytest.raises(ValueError, match=r"\[load\]"):
        tk.load(path, mmap=mmap)


STRUCTURES = [
    "", "{", "[1]", "{}", '{"q":1}', '{"t":1}', '{"t":["a","float32",[1]]}', '{"t":["x","float64",[1]]}',
    '{"t":["x","float32",[2]]}', '{"t":["x","float32",[-1]]}', '{"t":["x","float32",1]}', '{"t":[["x"],"float32",[1]]}',
    '{"t":["x","complex64",[]]}', '{"l":1}', '{"l":{}}', '{"d":[1]}', '{"d":[["a"]]}', '{"d":[["a",1],["a",2]]}',
    '{"d":[[[],1]]}', '{"d":[[{"l":[]},1]]}', '{"n":["P",["a"],[]]}', '{"n":["P",["a","a"],[1,2]]}',
    '{"n":["P",["_a"],[1]]}', '{"n":["import os",["a"],[1]]}', '{"n":["P",["class"],[1]]}', '{"n":[1,["a"],[1]]}',
    '{"n":["P",[1],[1]]}', '{"f":"1.5"}', '{"f":1}', '{"f":[]}', '{"x":[1]}', '{"x":["a","b"]}', '{"x":[1,2]}',
    '{"g":[1]}', '{"g":[-1,0,0]}', '{"g":"abc"}', '{"l":[],"u":[]}', '{"l":' * 200 + "1" + "}" * 200, "[" * 100_000,
    "1" * 5000, "null", "NaN", '{"l":[' * 101 + '{"t":["x","float32",[1]]}' + "]}" * 101,
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(STRUCTURES)))
def test_hostile_structures(case: int, path: str) -> None:
    notes = {"tenkey.structure": STRUCTURES[case]}
    notes["tenkey.checksum"] = _safetensors._checksum(notes)
    write(path, {"__metadata__": notes, "x": entry()}, bytes(4))
    with pytest.raises(ValueError, match=r"\[load\]"):
        tk.load(path)


def _sample(path: str) -> tuple[Any, bytes]:
    tree = {
        "w": tk.arange(6).astype("float32").reshape((2, 3)),
        "b": (tk.asarray([True, False]), 3.5, "text"),
        "z": tk.asarray([1j]),
    }
    tk.save(tree, path, metadata={"author": "me"})
    return tree, Path(path).read_bytes()


def _shape_of(tree: Any) -> Any:
    if isinstance(tree, tk.Tensor):
        return (tree.shape, tree.dtype, tree.requires_grad)
    if isinstance(tree, dict):
        return {k: _shape_of(v) for k, v in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree), [_shape_of(v) for v in tree]
    return tree


@pytest.mark.parametrize("bit", [0, 1, 3, 5, 7])
def test_damaged_bytes(bit: int, path: str) -> None:
    """A bit that flips anywhere: the file is refused, or gives the same structure (and other values at most)."""
    tree, good = _sample(path)
    begin = 8 + int.from_bytes(good[:8], "little")
    for i in range(len(good)):
        bad = bytearray(good)
        bad[i] ^= 1 << bit
        Path(path).write_bytes(bad)
        try:
            loaded, metadata = tk.load(path, with_metadata=True)
        except ValueError as error:
            assert i < begin, "a value was refused"
            assert str(error).startswith("[load]"), error  # noqa: PT017
        else:
            assert _shape_of(loaded) == _shape_of(tree), (i, bytes(bad[max(0, i - 10) : i + 10]))
            assert metadata == {"author": "me"}


def test_cut_off_anywhere(path: str) -> None:
    _, good = _sample(path)
    for length in range(len(good)):
        Path(path).write_bytes(good[:length])
        with pytest.raises(ValueError, match=r"\[load\]"):
            tk.load(path)
    Path(path).write_bytes(good + b"\0")
    with pytest.raises(ValueError, match=r"\[load\]"):
        tk.load(path)


@settings(_SETTINGS, max_examples=300)
@given(data=st.data())
def test_many_damages(data: st.DataObject, path: str) -> None:
    kind = data.draw(st.sampled_from(["safetensors", "npz", "npy"]))
    name = f"{path}.{kind}"
    tree: Any = {"w": tk.ones((2, 3)), "b": tk.arange(4)}
    tk.save(tree["w"] if kind == "npy" else tree, name)
    bad = bytearray(Path(name).read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        i = data.draw(st.integers(0, len(bad) - 1))
        action = data.draw(st.sampled_from(["set", "cut", "insert", "delete"]))
        if action == "set":
            bad[i] = data.draw(st.integers(0, 255))
        elif action == "insert":
            bad[i:i] = data.draw(st.binary(min_size=1, max_size=5))
        else:
            del bad[i : i + (len(bad) if action == "cut" else 3)]
        if not bad:
            break
    Path(name).write_bytes(bad)
    try:
        tk.load(name, mmap=data.draw(st.booleans()))
    except ValueError as error:
        assert str(error).startswith("[load]"), error  # noqa: PT017


@settings(_SETTINGS, max_examples=200)
@given(data=st.data())
def test_we_accept_no_more_than_the_library(data: st.DataObject, path: str) -> None:
    safetensors.numpy.save_file({"a": np.ones((2, 3), np.float32), "b": np.arange(3)}, path)
    bad = bytearray(Path(path).read_bytes())
    i = data.draw(st.integers(0, len(bad) - 1))
    bad[i] = data.draw(st.integers(0, 255))
    Path(path).write_bytes(bad)
    try:
        ours = tk.load(path)
    except ValueError:
        return
    theirs = safetensors.numpy.load(bytes(bad))
    assert {k: v.numpy().tobytes() for k, v in ours.items()} == {k: v.tobytes() for k, v in theirs.items()}


# ---- writing


@pytest.mark.parametrize("suffix", ["safetensors", "npz", "npy"])
@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failure_leaves_the_old_file(suffix: str, step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = tmp_path / f"f.{suffix}"
    tree = tk.ones(3) if suffix == "npy" else {"x": tk.ones(3)}
    tk.save(tree, name)
    before = name.read_bytes()

    def fail(*args: Any, **kwargs: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(*((_files.os, "fsync") if step == "fsync" else (Path, "replace")), fail)
    with pytest.raises(OSError, match="disk full"):
        tk.save(tree, name)
    assert name.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == [name.name]


def test_an_interrupted_writer_leaves_nothing(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(arrays: Any, name: str, metadata: Any) -> None:
        Path(name).write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(safetensors.numpy, "save_file", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tk.save({"x": tk.ones(3)}, path)
    assert list(Path(path).parent.iterdir()) == []


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_permissions(path: str, tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        tk.save(1, path)
        assert stat.S_IMODE(Path(path).stat().st_mode) == 0o640
        Path(path).chmod(0o604)
        tk.save(2, path)
        assert stat.S_IMODE(Path(path).stat().st_mode) == 0o604
    finally:
        os.umask(old)
    link = tmp_path / "link"
    link.symlink_to(path)
    tk.save(3, link)
    assert link.is_symlink()
    assert tk.load(path) == 3
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    with pytest.raises(ValueError, match="not a regular file"):
        tk.save(4, fifo)
