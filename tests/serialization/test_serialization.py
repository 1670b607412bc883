"""tk.save and tk.load: trees, files of other programs, and files that nothing half-written replaces."""

from __future__ import annotations

import io
import math
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import tenkey as tk
from tenkey.core.word import tensor_dtype
from tenkey.serialization import _safetensors
from tests._serialization import DTYPES, SETTINGS, Pair, equal, roundtrip, write
from tests._tiers import tier


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "file.safetensors")


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


@pytest.mark.wider
@settings(SETTINGS, max_examples=tier(50, 150))
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
