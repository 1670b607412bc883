"""Views of tensors on strided arrays, which every backend except the CPU derives from the View facet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.storage import StridedArray
from ..core.tensor import Tensor, make_view
from ..dispatch.operator import Operator

__all__ = ["strided_view_kernel"]


def strided_view_kernel(operator: Operator, contiguous: Callable[[Tensor], Tensor]) -> Callable[..., Tensor]:
    """Return a view kernel made from the operator's window rule; ``contiguous`` copies where a view is impossible."""
    make_window = operator.facets["View"].window

    def kernel(x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        window = make_window(x, *args, **kwargs)
        if window is None:
            x = contiguous(x)
            kwargs.pop("copy", None)  # the copy exists now
            window = make_window(x, *args, **kwargs)
        shape, strides, offset = window
        data: StridedArray = x._data
        size = data.dtype.itemsize
        return make_view(x, data.window(shape, tuple([s * size for s in strides]), data.offset + offset * size))

    return kernel
