"""Damaged and hostile files are refused, and by nothing but a ValueError."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors
import safetensors.numpy
from hypothesis import given, settings
from hypothesis import strategies as st

import tenkey as tk
from tenkey.serialization import _safetensors
from tests._serialization import SETTINGS, entry, write
from tests._tiers import tier


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "file.safetensors")


# ---- damaged and hostile files


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
    (b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}',
     bytes(4), None),
    (b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"\\u0061":{"dtype":"I32","shape":[1],"data_offsets":[0,4]}}',
     bytes(4), None),
    (b'{"__metadata__":{"a":"1","a":"2"}}', b"", None),
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


@pytest.mark.wider
@settings(SETTINGS, max_examples=tier(60, 300))
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


@pytest.mark.wider
@settings(SETTINGS, max_examples=tier(40, 200))
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
