"""Saving and loading trees of tensors: ``tk.save`` and ``tk.load``.

Files are in the safetensors format, with the structure of the tree in their metadata, or NumPy's ``.npy`` and
``.npz``. Loading never executes code from a file.

Note [Damaged and hostile files]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
All data of a file are checked before a tensor is created from them: lengths against the size of the file, names against
one another, the depth of nesting. The library ``safetensors`` checks its format, and NumPy the headers of its own
files; this package checks the structure, and compares headers with the file. So loading returns the whole tree or
raises ValueError, and takes no more memory than the length of the file, except for compressed ``.npz`` files, whose
limit ``_numpy_files.py`` describes. Their description (structure, names, shapes, metadata) has a checksum; the values
do not, so a flipped bit there is another value.
Guarded by tests/serialization/test_serialization_damage.py::test_damaged_bytes and ::test_hostile_headers.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ..core.device import to_device

__all__ = ["load", "save"]


def save(obj: Any, path: str | os.PathLike[str], *, metadata: Mapping[str, str] | None = None) -> None:
    """Write a tree of tensors to a file, atomically.

    ``obj`` consists of dicts, lists, tuples, NamedTuples, tensors, NumPy arrays, Python numbers, strings, None and
    random generators. ``metadata`` maps strings to strings, for people and other programs. A name ending with ``.npy``
    selects NumPy's format for one array, ``.npz`` that for a dict of arrays, any other name the safetensors format.

    The values of tensors of any layout and device are written; views become separate tensors, but a tensor that occurs
    twice is stored once. Leaves keep ``requires_grad``; results of recorded computations are saved as values. The file
    is written under another name and then renamed, so that ``path`` always has the old content or the new.

    Raises TypeError for objects that cannot be saved (the message says where), ValueError for a tensor without values,
    ImportError if safetensors is not installed (``pip install tenkey[save]``), OSError if the file cannot be written.

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "model.safetensors")
    >>> tk.save({"weight": tk.ones((2, 3)), "epochs": 7}, path, metadata={"author": "me"})
    >>> tk.load(path)["epochs"]
    7
    """
    from ._numpy_files import write_npy, write_npz
    from ._safetensors import write_safetensors

    name = _path("save", path)
    suffix = os.path.splitext(name)[1].lower()  # noqa: PTH122  # the name is a string here
    if suffix in (".npy", ".npz"):
        if metadata:
            raise TypeError(f"[save] {suffix} files hold no metadata: save to a .safetensors file.")
        (write_npy if suffix == ".npy" else write_npz)(obj, name)
    else:
        write_safetensors(obj, name, metadata)


def load(
    path: str | os.PathLike[str], *, device: Any = None, mmap: bool = True, allow_pickle: bool = False,
    with_metadata: bool = False,
) -> Any:  # fmt: skip
    """Return the tree that ``save`` wrote; a dict of tensors for other safetensors and npz files, a tensor for npy.

    Tensors are on ``device``, by default the CPU. With ``mmap``, those on the CPU are windows on the file, read at
    their first use: loading is immediate and takes memory only for used tensors. They can be changed, which affects
    neither the file nor other tensors loaded from it. The file may be replaced or removed in the meantime, as ``save``
    does, but not overwritten or truncated; ``mmap=False`` reads everything at once. ``with_metadata`` returns a pair of
    the tree and the metadata.

    Objects in NumPy files are pickles, which can run any program: they are refused unless ``allow_pickle`` is true, for
    files that you trust. Raises ValueError for a damaged file or another format, ImportError for a safetensors file if
    safetensors is not installed (``pip install tenkey[save]``).

    >>> import os, tempfile
    >>> path = os.path.join(tempfile.mkdtemp(), "x.npz")
    >>> np.savez(path, a=np.arange(3), b=np.ones(2))
    >>> tk.load(path)["a"].tolist()
    [0, 1, 2]
    """
    from ._files import opened
    from ._numpy_files import NPY_MAGIC, ZIP_MAGICS, read_npy, read_npz
    from ._safetensors import read_safetensors

    name = _path("load", path)
    target = None if device is None else to_device(device)
    metadata: dict[str, str] = {}
    with opened(name, mmap) as (file, content):
        start = bytes(content[:8])
        if start.startswith(NPY_MAGIC):
            result = read_npy(content, name, target, allow_pickle)
        elif start[:4] in ZIP_MAGICS:
            result = read_npz(content, name, target, allow_pickle)
        elif len(start) > 1 and start[0] == 0x80 and 2 <= start[1] <= 5 and bytes(content[8:9]) != b"{":
            raise ValueError(
                f"[load] {name} is not a safetensors, npy or npz file; it looks like a pickle, which can run any "
                "program when loaded. If you trust it, load it with the pickle module."
            )
        else:
            result, metadata = read_safetensors(file, content, name, target)
    return (result, metadata) if with_metadata else result


def _path(function: str, path: Any) -> str:
    try:
        name = os.fsdecode(path)
    except TypeError:
        raise TypeError(
            f"[{function}] path must be a string or a path, got {type(path).__name__}: use a file, then its bytes."
        ) from None
    if "\0" in name:
        raise ValueError(
            f"[{function}] the path {name!r} has a NUL character, which file names cannot have: remove it."
        )
    return name
