"""NumPy files: ``.npy`` with one array, ``.npz`` with several by name.

Note [Compressed files are bounded]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
A compressed member states its length, and no more is read. The sum of these lengths must be below 100 times the length
of the file, or below 1 GiB, so that a small file cannot fill the memory. Guarded by
test_serialization_numpy.py::test_a_bomb_is_refused.
"""

from __future__ import annotations

import io
import math
import zipfile
import zlib
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.lib import format as npy

from ..core.tensor import Tensor
from ..core.word import tensor_dtype
from ..functions.creation import asarray
from ._files import replacing

NPY_MAGIC: Final = b"\x93NUMPY"
ZIP_MAGICS: Final = (b"PK\x03\x04", b"PK\x05\x06")
_RATIO: Final = 100
_FREE: Final = 1 << 30
_HEADER_LIMIT: Final = 10_000

_FLAT: Final = "[save] an .npz file holds a dict of tensors or arrays by strings, got {what}: save to .safetensors."
_DAMAGED: Final = "[load] {path} is damaged: {why}. Nothing was loaded."


def _array(value: Any, message: str) -> np.ndarray:
    if isinstance(value, Tensor):
        if value.device.type == "meta":
            raise ValueError(f"[save] a tensor on the device {value.device} has no values.")
        array = value.detach().numpy()
    elif isinstance(value, (np.ndarray, np.generic, bool, int, float, complex)):
        array = np.asarray(value)
    else:
        raise TypeError(message)
    if array.dtype.kind not in "biufc":
        raise TypeError(f"[save] NumPy's files do not hold dtype {array.dtype}: convert it, or save to .safetensors.")
    return array


def write_npy(obj: Any, path: str) -> None:
    """Write one array."""
    array = _array(
        obj,
        f"[save] an .npy file holds one tensor or array, got {type(obj).__name__}: save a dict to .npz, a tree to "
        ".safetensors.",
    )
    with replacing(path) as temporary, Path(temporary).open("wb") as file:
        npy.write_array(file, array, allow_pickle=False)


def write_npz(obj: Any, path: str) -> None:
    """Write a dict of arrays, not compressed."""
    if not isinstance(obj, dict):
        raise TypeError(_FLAT.format(what=type(obj).__name__))
    arrays = {}
    for key, value in obj.items():
        if not isinstance(key, str):
            raise TypeError(_FLAT.format(what=f"the key {key!r}"))
        arrays[key] = _array(value, _FLAT.format(what=f"{type(value).__name__} for {key!r}"))
    with replacing(path) as temporary, zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive:
        for key, array in arrays.items():
            with archive.open(f"{key}.npy", "w", force_zip64=True) as file:
                npy.write_array(file, array, allow_pickle=False)


def read_npy(content: memoryview, path: str, device: Any, allow_pickle: bool) -> Any:
    """Return the tensor of a file."""
    return _finished(_parse(content, path, allow_pickle), device)


def read_npz(content: memoryview, path: str, device: Any, allow_pickle: bool) -> dict[str, Any]:
    """Return the tensors of a file by name."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = archive.infolist()
            total = sum(member.file_size for member in members)
            if total > _FREE and total > _RATIO * len(content):
                raise ValueError(
                    f"[load] {path} has {len(content)} bytes and would become {total}: such files are made to fill the "
                    "memory. If you trust it, load it with numpy.load."
                )
            arrays: dict[str, Any] = {}
            for member in members:
                name = member.filename.removesuffix(".npy")
                if name in arrays or not member.filename.endswith(".npy"):
                    raise ValueError(_DAMAGED.format(path=path, why=f"it has the member {member.filename[:60]!r}"))
                arrays[name] = _parse(memoryview(bytearray(archive.read(member))), path, allow_pickle)
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, OverflowError, ValueError) as error:
        if str(error).startswith("[load]"):
            raise
        raise ValueError(_DAMAGED.format(path=path, why=error)) from None
    return {name: _finished(array, device) for name, array in arrays.items()}


def _parse(content: memoryview, path: str, allow_pickle: bool) -> np.ndarray:
    """Return an array in NumPy's format: a window on ``content`` where its byte order allows."""
    file = io.BytesIO(content[: _HEADER_LIMIT + 100])
    try:
        version = npy.read_magic(file)
        read = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}[version]
        shape, fortran, dtype = read(file, max_header_size=_HEADER_LIMIT)
    except Exception as error:  # literal_eval and dtype() raise various errors for hostile text
        raise ValueError(_DAMAGED.format(path=path, why=f"its header is invalid ({str(error)[:100]})")) from None
    if dtype.hasobject:
        if not allow_pickle:
            raise ValueError(
                f"[load] {path} holds pickled Python objects, and loading these can run any program. Pass "
                "allow_pickle=True if you trust the file."
            )
        return np.load(io.BytesIO(content), allow_pickle=True)  # type: ignore[no-any-return]
    begin, size = file.tell(), math.prod(shape) * dtype.itemsize
    if any(n < 0 for n in shape) or size > len(content) - begin or len(shape) > 64:
        raise ValueError(_DAMAGED.format(path=path, why=f"{shape} of {dtype} do not fit into {len(content)} bytes"))
    try:
        wanted = tensor_dtype(dtype.newbyteorder("="))
    except (TypeError, ValueError):
        raise ValueError(
            f"[load] {path} holds an array of dtype {dtype}, which tenkey does not have: load it with numpy.load."
        ) from None
    if size == 0:
        try:
            return np.empty(shape, wanted)
        except ValueError as error:
            raise ValueError(_DAMAGED.format(path=path, why=error)) from None
    flat = np.frombuffer(content, dtype, math.prod(shape), begin)
    if dtype.kind == "b" and flat.view(np.uint8).max() > 1:
        flat = flat.view(np.uint8) != 0
    if dtype != wanted or not flat.flags.aligned:
        flat = flat.astype(wanted)
    return flat.reshape(shape[::-1]).T if fortran else flat.reshape(shape)


def _finished(array: np.ndarray, device: Any) -> Any:
    return array if array.dtype.hasobject else asarray(array, device=device)
