"""Safetensors files: eight bytes of length, a JSON header, and the values without gaps.

The library ``safetensors`` writes and reads them, and rejects damaged ones. It would copy values, so tensors are
windows on the mapped file instead: without gaps, their offsets follow from the sizes.
Source: the description of the format at https://github.com/huggingface/safetensors.
"""

from __future__ import annotations

import errno
import json
import math
import re
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Final

import numpy as np

from ..core.dtypes import names as dtypes
from ..core.tensor import Tensor
from ..core.word import tensor_dtype
from ..functions.creation import asarray
from ._files import replacing
from ._structure import Reader, StructureError, Writer, parse_json

_STRUCTURE: Final = "tenkey.structure"
_CHECKSUM: Final = "tenkey.checksum"
_DTYPES: Final[dict[str, str]] = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "U16": "uint16", "I16": "int16", "U32": "uint32", "I32": "int32",
    "U64": "uint64", "I64": "int64", "F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64",
    "C64": "complex64",
}  # fmt: skip

_MISSING: Final = (
    "[{function}] {path}: such files need safetensors, which is not installed: pip install 'tenkey[save]', or use .npz."
)
_METADATA: Final = "[save] metadata map strings to strings, got {key!r}: {value!r}."


def write_safetensors(obj: Any, path: str, metadata: Mapping[str, str] | None) -> None:
    """Write a tree; see ``tenkey.save``."""
    try:
        from safetensors import SafetensorError
        from safetensors.numpy import save_file
    except ImportError:
        raise ImportError(_MISSING.format(function="save", path=path)) from None
    notes = _checked_metadata(metadata or {})
    writer = Writer({*_DTYPES.values(), "complex128"})
    structure = json.dumps(writer.encode(obj), separators=(",", ":"), allow_nan=False)
    notes[_STRUCTURE] = structure
    notes[_CHECKSUM] = _checksum(notes)
    arrays = {name: _plain(array) for name, array in writer.arrays.items()}
    with replacing(path) as temporary:
        try:
            save_file(arrays, temporary, notes)
        except SafetensorError as error:  # a full disk, for instance: only the text has the system's number
            found = re.search(r"os error (\d+)", str(error))
            number = int(found[1]) if found else errno.EIO
            raise OSError(number, str(error), path, number) from error  # twice, for Windows


def _checked_metadata(metadata: Mapping[str, str]) -> dict[str, str]:
    given: Mapping[Any, Any] = metadata
    if not isinstance(metadata, Mapping):
        raise TypeError(f"[save] metadata is a dict of strings, got {type(metadata).__name__}.")
    for key, value in given.items():
        if not (isinstance(key, str) and isinstance(value, str)):
            raise TypeError(_METADATA.format(key=key, value=value))
        if key in (_STRUCTURE, _CHECKSUM):
            raise ValueError(f"[save] the metadata key {key!r} is reserved: choose another.")
        try:
            (key + value).encode()
        except UnicodeEncodeError:
            raise ValueError(_METADATA.format(key=key, value=value)) from None
    return dict(metadata)


def _checksum(notes: Mapping[str, str]) -> str:
    pairs = sorted((key, value) for key, value in notes.items() if key != _CHECKSUM)
    return f"{zlib.crc32(json.dumps(pairs).encode()):08x}"


def _plain(array: np.ndarray) -> np.ndarray:
    """Return a contiguous little-endian array, with complex numbers as a last axis of two.

    ``safetensors.numpy`` stores Fortran order as if it were C order (its issue 825).
    """
    array = np.array(array, order="C", copy=None)
    if array.dtype.byteorder == ">":
        array = array.astype(array.dtype.newbyteorder("<"))
    if array.dtype.kind == "c":
        real = dtypes.real_of(array.dtype)
        return array.reshape(-1).view(real).reshape((*array.shape, 2))
    return array


def read_safetensors(file: BinaryIO, content: memoryview, path: str, device: Any) -> tuple[Any, dict[str, str]]:
    """Return the tree and the metadata of a file; a dict of tensors if it has no structure."""
    try:
        arrays, metadata = _windows(file, content, path)
        if (_STRUCTURE in metadata) != (_CHECKSUM in metadata):
            raise StructureError("one of structure and checksum is missing")
        if _STRUCTURE not in metadata:
            return {name: _leaf("t", window.array(), device) for name, window in arrays.items()}, metadata
        if metadata[_CHECKSUM] != _checksum(metadata):
            raise StructureError("the checksum of structure and metadata does not fit")
        node = parse_json(metadata[_STRUCTURE], "the structure")
        # Once without creating tensors, so that nothing is copied for a file that is refused later.
        _decode(node, arrays, device, making=False)
        tree = _decode(node, arrays, device, making=True)
        notes = {key: value for key, value in metadata.items() if key not in (_STRUCTURE, _CHECKSUM)}
    except StructureError as error:
        raise ValueError(
            f"[load] {path} is not a safetensors, npy or npz file, or it is damaged: {error}. Nothing was loaded."
        ) from None
    return tree, notes


def _windows(file: BinaryIO, content: memoryview, path: str) -> tuple[dict[str, _Window], dict[str, str]]:
    """Return the tensors and metadata that the library finds in a file. Raises StructureError if it rejects it."""
    try:
        from safetensors import SafetensorError, safe_open
    except ImportError:
        raise ImportError(_MISSING.format(function="load", path=path)) from None
    # By descriptor if the system has a name for it: ``path`` may be another file by now.
    same = Path(f"/dev/fd/{file.fileno()}")
    try:
        with safe_open(same if same.exists() else path, framework="numpy") as opened:
            metadata = opened.metadata() or {}
            slices = {name: opened.get_slice(name) for name in opened.offset_keys()}
            said = {name: (part.get_dtype(), tuple(part.get_shape())) for name, part in slices.items()}
    except SafetensorError as error:
        raise StructureError(str(error)[:200]) from None
    # The library takes the last of equal names, other programs the first: they would read different files.
    parse_json(bytes(content[8 : 8 + int.from_bytes(content[:8], "little")]), "the header")
    for name, (code, _) in said.items():
        _check_dtype(code, path, name)
    sizes = {name: math.prod(shape) * dtypes.to_dtype(_DTYPES[code]).itemsize for name, (code, shape) in said.items()}
    begin = len(content) - sum(sizes.values())
    windows = {}
    for name, (code, shape) in said.items():
        windows[name] = _Window(content, begin, code, shape)
        begin += sizes[name]
    return windows, metadata


def _check_dtype(code: str, path: str, name: str) -> None:
    """Raise ValueError for a dtype that tensors cannot have."""
    if code not in _DTYPES:
        raise ValueError(f"[load] {path}: the tensor {name[:60]!r} has dtype {code}, which tenkey does not have.")
    if code == "BF16":
        try:
            tensor_dtype("bfloat16")
        except (TypeError, ValueError):
            raise ValueError(
                f"[load] {path}: the tensor {name[:60]!r} has dtype bfloat16, which tenkey cannot hold here: pip "
                "install ml_dtypes."
            ) from None


def _decode(node: Any, arrays: Mapping[str, _Window], device: Any, *, making: bool) -> Any:
    def make(tag: str, name: str, dtype: str, shape: tuple[int, ...]) -> Any:
        window = arrays.get(name)
        if window is None:
            raise StructureError(f"the structure names {name[:60]!r}, which is not in the file")
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


class _Window:
    """A tensor of the file."""

    def __init__(self, content: memoryview, begin: int, code: str, shape: tuple[int, ...]) -> None:
        self.content, self.begin, self.code, self.shape = content, begin, code, shape
        self.is_complex = False

    def fit(self, name: str, dtype: str, shape: tuple[int, ...]) -> None:
        """Raise StructureError unless the structure agrees."""
        stored = {"complex64": "float32", "complex128": "float64"}.get(dtype)
        self.is_complex = stored is not None and self.code != "C64"
        wanted = (stored, (*shape, 2)) if self.is_complex else (dtype, shape)
        if (_DTYPES[self.code], self.shape) != wanted:
            raise StructureError(f"the structure and the header differ about {name[:60]!r}")

    def array(self) -> np.ndarray:
        """Return the values: a window on the file if it is aligned."""
        dtype = dtypes.to_dtype(_DTYPES[self.code])
        shape = self.shape
        if self.is_complex:
            dtype, shape = dtypes.complex_of(dtype), shape[:-1]
        order = dtype.newbyteorder("<") if dtype.kind in "iufc" else dtype
        try:
            array = np.ndarray(shape, order, self.content if math.prod(shape) else None, self.begin)
        except ValueError:
            raise StructureError(f"no array has the shape {shape}") from None
        if dtype.kind == "b" and array.size and array.view(np.uint8).max() > 1:
            array = array.view(np.uint8) != 0  # other bytes are neither true nor false
        if not array.flags.aligned or array.dtype != dtype:
            array = array.astype(dtype)
        return array
