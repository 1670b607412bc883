"""What tests of saved files share: which trees are equal, and files written by hand."""

from __future__ import annotations

import collections
import json
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings

import tenkey as tk
from tenkey.core.dtypes import names as dtypes

Pair = collections.namedtuple("Pair", ["first", "second"])  # noqa: PYI024
DTYPES = [d for d in dtypes.all_dtypes() if d.name != "bfloat16"]
SETTINGS = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True)


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


def roundtrip(obj: Any, path: str, **options: Any) -> Any:
    tk.save(obj, path)
    return tk.load(path, **options)


def write(path: str, header: Any, data: bytes = b"", length: int | None = None) -> None:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    Path(path).write_bytes((len(text) if length is None else length).to_bytes(8, "little") + text + data)


def entry(dtype: Any = "F32", shape: Any = (1,), offsets: Any = (0, 4)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}
