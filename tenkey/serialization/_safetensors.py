"""Safetensors files: eight bytes of length, a JSON header, and the values without gaps.

The library ``safetensors`` writes them. Reading is done here, because tensors are windows on the mapped file, which the
library's front for NumPy does not offer; the rules are its own, and the tests hold both to one another.
Source: the format's description at https://github.com/huggingface/safetensors.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from ..core import dtypes
from ..core.tensor import Tensor
from ..core.word import tensor_dtype
from ..creation import asarray
from ._files import replacing
from ._structure import Reader, StructureError, Writer, parse_json

_STRUCTURE: Final = "tenkey.structure"
_CHECKSUM: Final = "tenkey.checksum"
_HEADER_LIMIT: Final = 100_000_000  # of the library
_DTYPES: Final[dict[str, str]] = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "U16": "uint16", "I16": "int16", "U32": "uint32", "I32": "int32",
    "U64": "uint64", "I64": "int64", "F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64",
    "C64": "complex64",
}  # fmt: skip
_SIZES: Final = {name: int(name.lstrip("BFCUIOL") or 8) // 8 for name in _DTYPES}

_MISSING: Final = (
    "[save] safetensors is not installed, which writes the files: pip install 'tenkey[save]' (or save to .npz, which "
    "needs nothing)."
)
_METADATA: Final = "[save] metadata are strings by strings, got {key!r}: {value!r}."
_RESERVED: Final = "[save] the metadata key {key!r} is tenkey's own: choose another."
_DAMAGED: Final = "[load] {path} is no safetensors, npy or npz file, or it is damaged: {why}. Nothing was loaded."
_NO_BFLOAT16: Final = (
    "[load] {path}: the tensor {name!r} has dtype bfloat16, which tenkey cannot hold here: pip install ml_dtypes."
)
_UNKNOWN_DTYPE: Final = "[load] {path}: the tensor {name!r} has dtype {dtype}, which tenkey does not have."


def _is_storable(dtype: np.dtype) -> bool:
    return dtype.name in _DTYPES.values() or dtype.name == "complex128"


def write_safetensors(obj: Any, path: str, metadata: Mapping[str, str] | None) -> None:
    """Write a tree; see ``tenkey.save``."""
    try:
        from safetensors.numpy import save_file
    except ImportError:
        raise ImportError(_MISSING) from None
    notes = _checked_metadata(metadata or {})
    writer = Writer(_is_storable)
    structure = json.dumps(writer.encode(obj), separators=(",", ":"), allow_nan=False)
    notes[_STRUCTURE] = structure
    notes[_CHECKSUM] = _checksum(notes)
    with replacing(path) as temporary:
        save_file({name: _plain(array) for name, array in writer.arrays.items()}, temporary, notes)


def _checked_metadata(metadata: Mapping[str, str]) -> dict[str, str]:
    given: Mapping[Any, Any] = metadata
    for key, value in given.items():
        if not (isinstance(key, str) and isinstance(value, str)):
            raise TypeError(_METADATA.format(key=key, value=value))
        if key in (_STRUCTURE, _CHECKSUM):
            raise ValueError(_RESERVED.format(key=key))
        try:
            (key + value).encode()
        except UnicodeEncodeError:
            raise ValueError(_METADATA.format(key=key, value=value)) from None
    return dict(metadata)


def _checksum(notes: Mapping[str, str]) -> str:
    pairs = sorted((key, value) for key, value in notes.items() if key != _CHECKSUM)
    return f"{zlib.crc32(json.dumps(pairs).encode()):08x}"


def _plain(array: np.ndarray) -> np.ndarray:
    """Contiguous, little-endian, and without complex numbers: these get a last axis of two.

    The library's front takes Fortran order for C order (its issue 825), so it must not see any.
    """
    array = np.array(array, order="C", copy=None).reshape(array.shape)
    if not array.flags.c_contiguous:
        array = array.copy(order="C")
    if array.dtype.byteorder == ">":
        array = array.astype(array.dtype.newbyteorder("<"))
    if array.dtype.kind == "c":
        real = dtypes.real_of(array.dtype)
        return array.reshape(-1).view(real).reshape((*array.shape, 2))
    return array


def read_safetensors(content: memoryview, path: str, device: Any) -> tuple[Any, dict[str, str]]:
    """The tree and the metadata of a file's bytes; a dict of tensors where it has no structure."""
    try:
        entries, metadata, begin = _read_header(content)
        arrays = {name: _Window(content, begin, name, entry) for name, entry in entries.items()}
        _check_places(arrays, len(content) - begin)
        if (_STRUCTURE in metadata) != (_CHECKSUM in metadata):
            raise StructureError("one of structure and checksum is missing")
        if _STRUCTURE not in metadata:
            for name, window in arrays.items():
                window.check(path, name)
            return {name: _leaf("t", window.array(), device) for name, window in arrays.items()}, metadata
        if metadata[_CHECKSUM] != _checksum(metadata):
            raise StructureError("the checksum of structure and metadata does not fit")
        node = parse_json(metadata[_STRUCTURE], "the structure")
        # Once without making anything, so that nothing is copied for a file that is refused further on.
        _decode(node, arrays, path, device, making=False)
        tree = _decode(node, arrays, path, device, making=True)
        notes = {key: value for key, value in metadata.items() if key not in (_STRUCTURE, _CHECKSUM)}
    except StructureError as error:
        raise ValueError(_DAMAGED.format(path=path, why=error)) from None
    return tree, notes


def _decode(node: Any, arrays: Mapping[str, _Window], path: str, device: Any, *, making: bool) -> Any:
    def make(tag: str, name: str, dtype: str, shape: tuple[int, ...]) -> Any:
        window = arrays.get(name)
        if window is None:
            raise StructureError(f"the structure names {name[:60]!r}, which is not in the file")
        window.check(path, name)
        window.fit(name, dtype, shape)
        return _leaf(tag, window.array(), device) if making else None

    reader = Reader(make)
    tree = reader.decode(node)
    if reader.names != arrays.keys():
        raise StructureError("the structure does not name all tensors of the file")
    return tree


def _leaf(tag: str, array: np.ndarray, device: Any) -> Any:
    if tag == "a":
        return array
    if tag == "s":
        return array[()]
    tensor: Tensor = asarray(array, device=device)
    if tag == "p":
        tensor.requires_grad_()
    return tensor


def _read_header(content: memoryview) -> tuple[dict[str, Any], dict[str, str], int]:
    if len(content) < 8:
        raise StructureError(f"it has {len(content)} bytes")
    length = int.from_bytes(content[:8], "little")
    if length > _HEADER_LIMIT or length > len(content) - 8:
        raise StructureError(f"it has {len(content)} bytes, and its header would have {length}")
    text = bytes(content[8 : 8 + length])
    if not text.startswith(b"{"):
        raise StructureError("its header does not begin with a brace")
    try:
        header = parse_json(text.decode(), "the header")
    except UnicodeDecodeError:
        raise StructureError("its header is no UTF-8") from None
    metadata = header.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise StructureError("its metadata are not strings by strings")
    return header, metadata, 8 + length


class _Window:
    """What the header says of one tensor."""

    def __init__(self, content: memoryview, begin: int, name: str, entry: Any) -> None:
        if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
            raise StructureError(f"the entry of {name[:60]!r} is incomplete")
        self.code, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
        if not (isinstance(shape, list) and all(_is_length(n) for n in shape) and len(shape) <= 64):
            raise StructureError(f"the shape of {name[:60]!r} is none")
        if not (isinstance(offsets, list) and len(offsets) == 2 and all(_is_length(n) for n in offsets)):
            raise StructureError(f"the place of {name[:60]!r} is none")
        self.shape: tuple[int, ...] = tuple(shape)
        self.first, self.last = offsets
        if not isinstance(self.code, str):
            raise StructureError(f"the dtype of {name[:60]!r} is none")
        size = _SIZES.get(self.code)
        if size is not None and self.last - self.first != size * math.prod(self.shape):
            raise StructureError(f"the shape of {name[:60]!r} does not fit its place")
        self.content, self.begin = content, begin
        self.is_complex = False

    def check(self, path: str, name: str) -> None:
        """Raise ValueError for a dtype that is not ours."""
        if self.code not in _DTYPES:
            raise ValueError(_UNKNOWN_DTYPE.format(path=path, name=name[:60], dtype=self.code[:20]))
        if self.code == "BF16":
            try:
                tensor_dtype("bfloat16")
            except (TypeError, ValueError):
                raise ValueError(_NO_BFLOAT16.format(path=path, name=name[:60])) from None

    def fit(self, name: str, dtype: str, shape: tuple[int, ...]) -> None:
        """Raise StructureError unless the structure says the same."""
        stored = {"complex64": "float32", "complex128": "float64"}.get(dtype)
        self.is_complex = stored is not None and self.code != "C64"
        wanted = (stored, (*shape, 2)) if self.is_complex else (dtype, shape)
        if (_DTYPES[self.code], self.shape) != wanted:
            raise StructureError(f"the structure and the header differ about {name[:60]!r}")

    def array(self) -> np.ndarray:
        """The values: a window on the file where it is aligned."""
        dtype = dtypes.to_dtype(_DTYPES[self.code])
        shape = self.shape
        if self.is_complex:
            dtype, shape = dtypes.complex_of(dtype), shape[:-1]
        if self.first == self.last:
            try:
                return np.empty(shape, dtype)
            except ValueError:
                raise StructureError(f"no array has the shape {shape}") from None
        array = np.frombuffer(
            self.content,
            dtype.newbyteorder("<") if dtype.kind in "iufc" else dtype,
            math.prod(shape),
            self.begin + self.first,
        )
        if dtype.kind == "b" and array.view(np.uint8).max() > 1:
            array = array.view(np.uint8) != 0  # any other byte would be neither true nor false
        if not array.flags.aligned or array.dtype != dtype:
            array = array.astype(dtype)
        return array.reshape(shape)


def _is_length(n: Any) -> bool:
    return type(n) is int and 0 <= n < 1 << 63


def _check_places(arrays: Mapping[str, _Window], length: int) -> None:
    """The tensors lie one after the other, without gaps, up to the end of the file."""
    end = 0
    for window in sorted(arrays.values(), key=lambda w: (w.first, w.last)):
        if window.first != end or window.last < window.first:
            raise StructureError("its tensors overlap, or have gaps between them")
        end = window.last
    if end != length:
        raise StructureError(f"its tensors have {end} bytes, and {length} are there")
