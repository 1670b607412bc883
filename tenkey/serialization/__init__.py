"""Saving and loading trees of tensors: ``tk.save`` and ``tk.load``.

Files are safetensors files, which every tool of that format reads, with the structure of the tree in their metadata;
``.npy`` and ``.npz`` are NumPy's. Nothing in a file is ever executed.

Note [What a file can do]
~~~~~~~~~~~~~~~~~~~~~~~~~
A file may be damaged or hostile. Everything that it says is checked before a tensor is made of it: lengths against the
size of the file, names against one another, the depth of what nests. For safetensors files the library of that name
does so, and we the structure; NumPy reads the headers of its files, and we compare them with the file. So loading gives
the whole tree or raises ValueError, and takes no more memory than the file's length, save for compressed ``.npz``
files, whose limit is said in ``_numpy_files.py``. Values are not checked: a bit that flips in them is another value.
What describes them (structure, names, shapes, metadata) is under a checksum.
Guarded by tests/serialization/test_serialization_damage.py::test_damaged_bytes and ::test_hostile_headers.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from ..core.device import to_device

# The modules that read and write import archives, JSON and more of the standard library: at the first call.
__all__ = ["load", "save"]


def save(obj: Any, path: str | os.PathLike[str], *, metadata: Mapping[str, str] | None = None) -> None:
    """Write a tree of tensors to a file: whole, or not at all.

    ``obj`` is made of dicts, lists, tuples, NamedTuples, tensors, NumPy arrays, Python numbers, strings, None and
    random generators. ``metadata`` are strings by strings, to be read by people and other programs. A name that ends
    with ``.npy`` gives NumPy's format for one array, ``.npz`` for a dict of arrays; any other a safetensors file.

    Tensors of any layout and device are written as their values; views are not kept as views, but a tensor that
    occurs twice is stored once. That a leaf requires gradients is kept; a result of a recorded computation is saved as
    its value. The file is written beside its place under another name, and takes the place in one step: whatever
    happens, ``path`` holds the old content or the new.

    Raises TypeError for what cannot be saved (the message says where it is), ValueError for a tensor without values,
    ImportError if safetensors is not installed (``pip install tenkey[save]``), OSError if the file cannot be written.

    >>> import os, tempfile, tenkey as tk
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
    path: str | os.PathLike[str],
    *,
    device: Any = None,
    mmap: bool = True,
    allow_pickle: bool = False,
    with_metadata: bool = False,
) -> Any:
    """The tree that ``save`` wrote to a file; of other safetensors and npz files a dict of tensors, of npy a tensor.

    Tensors go to ``device``, the CPU without it. With ``mmap`` those on the CPU are windows on the file, read when they
    are used: loading is immediate, and takes no memory for what is not used. They can be changed, which changes
    neither the file nor other tensors loaded from it. The file may be replaced or removed meanwhile, as ``save``
    does; it must not be overwritten in place or cut off by others: ``mmap=False`` reads everything at once.
    ``with_metadata`` gives a pair of the tree and the metadata.

    Objects in NumPy's files are pickles, which can run any program: they are refused unless ``allow_pickle`` is true,
    which is for files that you trust alone. Raises ValueError for a file that is damaged, or of another format; then
    nothing is loaded. Raises ImportError for a safetensors file if safetensors is not installed
    (``pip install tenkey[save]``).

    >>> import os, tempfile, numpy as np, tenkey as tk
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
        elif len(start) > 1 and start[0] == 0x80 and 2 <= start[1] <= 5 and not _is_header(content):
            raise ValueError(
                f"[load] {name} is no safetensors, npy or npz file; it looks like a pickle, which can run any program "
                "when it is loaded. If you trust it, load it with the pickle module."
            )
        else:
            result, metadata = read_safetensors(file, content, name, target)
    return (result, metadata) if with_metadata else result


def _is_header(content: memoryview) -> bool:
    return bytes(content[8:9]) == b"{"


def _path(function: str, path: Any) -> str:
    try:
        name = os.fsdecode(path)
    except TypeError:
        raise TypeError(
            f"[{function}] path must be a string or a path, got {type(path).__name__}: write to a file, then read its "
            "bytes."
        ) from None
    if "\0" in name:
        raise ValueError(
            f"[{function}] the path {name!r} holds a NUL character, which no name of a file does: remove it."
        )
    return name
