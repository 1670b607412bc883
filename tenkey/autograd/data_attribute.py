"""``x.data``: the values without history, which programs written for PyTorch read, change and replace.

Note [x.data]
~~~~~~~~~~~~~
Reading gives what ``x.detach()`` gives: a tensor on the same memory, through which ``x`` is changed without a recorded
call. Both share one version counter. In PyTorch they do not, so a backward pass that needs a value overwritten through
``.data`` computes a wrong gradient there; here it raises, as after any other change in place. A program that changes
``x.data`` before the forward call or after the backward call never meets the difference.

Assigning a tensor makes ``x`` a name of that tensor's memory. The graphs recorded before have saved ``x`` itself, so
the assignment counts as a change of ``x``: its new version is one that neither memory has had. Views of ``x`` stay on
the old memory, with the history they had; they become views of a tensor that takes the place of ``x``.
Guarded by ``tests/autograd/test_data_attribute.py``.
"""

from __future__ import annotations

from typing import Any

from ..core.departures import departed
from ..core.storage import Storage
from ..core.tensor import Tensor, make_tensor, storage_of
from ..core.word import INHERITED, REQUIRES_GRAD
from ..core.wrapper import Wrapper
from ..dispatch.local_state import get_state

__all__ = ["data", "detach", "set_data"]


def detach(self: Tensor) -> Tensor:
    """Return a tensor without history on the same memory; both share the version counter."""
    return _detached(self, "x.detach()")


def _detached(x: Tensor, call: str) -> Tensor:
    if x._word & REQUIRES_GRAD and get_state() is not None:
        departed(call)
    made = make_tensor(x._data, x._word & INHERITED)
    storage = x._storage  # not the tensor itself, whose graph would be kept alive
    made._storage = storage if storage.__class__ is Storage else storage_of(x)
    return made


def data(self: Tensor) -> Tensor:
    """The values without history, as ``x.detach()`` gives them; assign a tensor to replace them.

    A change in place through it is not recorded, but it is counted: a backward pass that needs the values from before
    raises. An assigned tensor shares its memory with ``x``, whose shape, dtype and device become those of the tensor;
    ``grad`` stays as it is. A result of recorded calls keeps its shape, dtype and device. For kernels, see
    :attr:`array`.

    >>> p = tk.tensor([1.0, 2.0], requires_grad=True)
    >>> p.data += 1
    >>> p.data = p.data * 10
    >>> p
    tensor([20., 30.], shape=(2,), dtype=float32, device='cpu', requires_grad=True)
    """
    return self.detach() if isinstance(self, Wrapper) else _detached(self, "x.data")


def set_data(self: Tensor, value: Any) -> None:
    """Replace the values (Note [x.data])."""
    from .views.replaced_memory import replace_data  # Note [Delayed modules]

    replace_data(self, value)
