"""The gradient attributes of Tensor, and ``data``: the values without history, which programs change and replace.

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

import functools
import weakref
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ..core.answers import NO, YES, Answer
from ..core.departures import departed
from ..core.storage import Storage
from ..core.tensor import Tensor, make_tensor, storage_of, version_of
from ..core.word import INFERENCE, INHERITED, REQUIRES_GRAD
from ..core.wrapper import Wrapper
from ..dispatch.local_state import current_state, get_state
from .engine.engine import execute
from .engine.functional import backward
from .engine.graph_task import GraphTask
from .tape.node import HookHandle, Hooks, edge_of, making, meta_of

__all__ = ["attach_gradient_attributes"]

_BOOL: Final = "[{call}] requires_grad must be a bool, got {got}: pass True or False."
_HOOK_NO_GRAD: Final = (
    "[{call}] cannot register a hook on a tensor that doesn't require gradient: call requires_grad_() on it, or "
    "compute it from a tensor that does."
)


def _set_requires_grad(self: Tensor, value: bool) -> None:
    if not isinstance(value, (bool, np.bool_)):
        raise RuntimeError(_BOOL.format(call="requires_grad", got=repr(value)))
    requires_grad_(self, value)


def requires_grad_(self: Tensor, requires_grad: bool = True) -> Tensor:
    """Set whether a leaf requires a gradient, and return the tensor."""
    if not isinstance(requires_grad, (bool, np.bool_)):
        raise TypeError(_BOOL.format(call="requires_grad_", got=repr(requires_grad)))
    if not is_leaf(self):
        if not requires_grad:
            raise RuntimeError(
                "[requires_grad] you can only change requires_grad flags of leaf variables: this one was computed "
                f"by {self._autograd.node.name()}. Use x.detach() for a tensor that does not need a gradient."
            )
        return self
    if requires_grad:
        if self.dtype.kind not in "fc" and self.dtype.name != "bfloat16":
            raise RuntimeError(
                "[requires_grad_] only Tensors of floating point and complex dtype can require gradients, "
                f"got {self.dtype}."
            )
        if self._word & INFERENCE and not current_state().include & INFERENCE:
            raise RuntimeError(
                "[requires_grad_] Setting requires_grad=True on inference tensor outside InferenceMode is not "
                "allowed: make a normal tensor of it with clone() first."
            )
        self._word |= REQUIRES_GRAD
    else:
        self._word &= ~REQUIRES_GRAD
    return self


def is_leaf(self: Tensor) -> bool:
    """Whether the tensor was made by the user rather than by a recorded call."""
    meta = self._autograd
    return meta is None or meta.node is None


def requires_grad(self: Tensor) -> bool:
    """Whether calls on the tensor are recorded."""
    return bool(self._word & REQUIRES_GRAD)


def grad(self: Tensor) -> Tensor | None:
    """The accumulated gradient, or None."""
    return None if self._autograd is None else self._autograd.grad


def retains_grad(self: Tensor) -> bool:
    """Whether a non-leaf keeps its gradient."""
    return self._autograd is not None and self._autograd.retains_grad


def output_nr(self: Tensor) -> int:
    """The number of the tensor among the outputs of its node."""
    return 0 if self._autograd is None else self._autograd.output_nr


def _delete_grad(self: Tensor) -> None:
    if self._autograd is not None:
        self._autograd.grad = None


def _set_grad(self: Tensor, value: Tensor | None) -> None:
    if value is None:
        _delete_grad(self)
        return
    if not isinstance(value, Tensor):
        raise TypeError(
            f"[grad] assigned grad expected to be a Tensor or None but got grad of type {type(value).__name__}."
        )
    if value is self:
        raise RuntimeError("[grad] can't assign Variable as its own grad: assign a clone() or another tensor.")
    if (value.shape, value.dtype, value.device) != (self.shape, self.dtype, self.device):
        raise RuntimeError(
            f"[grad] assigned grad has data of a different {'size' if value.shape != self.shape else 'type'}: the "
            f"assigned grad has shape {value.shape}, dtype {value.dtype}, device {value.device}, but the tensor has "
            f"shape {self.shape}, dtype {self.dtype}, device {self.device}; they must be equal."
        )
    meta_of(self).grad = value


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


def _set_data(self: Tensor, value: Any) -> None:
    """Replace the values (Note [x.data])."""
    from .views.replaced_memory import replace_data  # Note [Delayed modules]

    replace_data(self, value)


def is_inference(self: Tensor) -> Answer:
    """Whether the tensor was made in inference mode; ``x.is_inference()`` says the same."""
    return YES if self._word & INFERENCE else NO


def _version(self: Tensor) -> int:
    if self._word & INFERENCE:
        raise RuntimeError(
            "[_version] Inference tensors do not track version counter: make a normal tensor of it with clone() "
            "outside of inference_mode()."
        )
    return version_of(self)


def _backward(
    self: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Compute the gradients of this tensor and add them to ``.grad`` of the leaves. See ``tk.autograd.backward``."""
    if (
        gradient is None
        and inputs is None
        and self.__class__ is Tensor
        and create_graph is False
        and (retain_graph is None or retain_graph is True or retain_graph is False)
    ):
        data = self._data  # the fast path for a loss, equivalent to backward()
        if data.__class__ is np.ndarray and not data.shape and data.dtype.kind == "f" and self._word & REQUIRES_GRAD:
            node, nr = edge_of(self)
            one = make_tensor(ones(data.dtype).copy(), self._word & INHERITED)
            execute(GraphTask(retain_graph is True, False), ((node, nr, one),))  # type: ignore[arg-type]  # it has a node
            return
    backward((self,), (gradient,), retain_graph, create_graph, inputs)


@functools.cache
def ones(dtype: np.dtype) -> np.ndarray:
    """Return the number 1 as an array, to be copied."""
    return np.ones((), dtype)


def register_hook(self: Tensor, hook: Callable[[Tensor], Any]) -> HookHandle:
    """Call ``hook(gradient)`` whenever the gradient of this tensor is computed; it may return a new gradient."""
    if not self._word & REQUIRES_GRAD:
        raise RuntimeError(_HOOK_NO_GRAD.format(call="register_hook"))
    meta = meta_of(self)
    own: Hooks
    with making:
        if meta.node is None:
            if meta.leaf_hooks is None:
                meta.leaf_hooks = Hooks()
                if meta.edge is not None:
                    meta.edge[0].tensor_hooks = {0: meta.leaf_hooks}
            own = meta.leaf_hooks
        else:
            if meta.node.tensor_hooks is None:
                meta.node.tensor_hooks = {}
            own = meta.node.tensor_hooks.setdefault(meta.output_nr, Hooks())
    return own.add(hook)


def register_post_accumulate_grad_hook(self: Tensor, hook: Callable[[Tensor], Any]) -> HookHandle:
    """Call ``hook(tensor)`` after a gradient has been added to ``.grad`` of this leaf."""
    if not self._word & REQUIRES_GRAD:
        raise RuntimeError(_HOOK_NO_GRAD.format(call="register_post_accumulate_grad_hook"))
    meta = meta_of(self)
    if meta.node is not None:
        raise RuntimeError(
            "[register_post_accumulate_grad_hook] post accumulate grad hooks cannot be registered on non-leaf "
            "tensors: register it on the leaf, or use register_hook() or retain_grad() here."
        )
    with making:
        if meta.post_accumulate_hooks is None:
            meta.post_accumulate_hooks = Hooks()
            if meta.edge is not None:
                meta.edge[0].kept = self
    return meta.post_accumulate_hooks.add(hook, "register_post_accumulate_grad_hook")  # type: ignore[no-any-return]


def retain_grad(self: Tensor) -> None:
    """Store the gradient of this tensor, which is not a leaf, in ``.grad``."""
    if not self._word & REQUIRES_GRAD:
        raise RuntimeError(
            "[retain_grad] can't retain_grad on Tensor that has requires_grad=False: compute it, outside of "
            "no_grad(), from a tensor that requires a gradient."
        )
    meta = meta_of(self)
    if meta.node is None or meta.retains_grad:
        return
    meta.retains_grad = True
    if meta.node.retain_hooks is None:
        meta.node.retain_hooks = {}
    meta.node.retain_hooks[meta.output_nr] = weakref.ref(self)


def attach_gradient_attributes() -> None:
    """Add the attributes to the Tensor class."""
    target: Any = Tensor
    target.requires_grad = property(requires_grad, _set_requires_grad, doc=requires_grad.__doc__)
    target.grad = property(grad, _set_grad, _delete_grad, doc=grad.__doc__)
    target.data = property(data, _set_data, doc=data.__doc__)
    target.grad_fn = property(
        lambda self: None if self._autograd is None else self._autograd.node,
        doc="The node that made the tensor; None for a leaf.",
    )
    for attribute in (is_leaf, is_inference, retains_grad, output_nr):
        setattr(target, attribute.__name__, property(attribute, doc=attribute.__doc__))
    target._version = property(_version, doc="The number of in-place changes of the memory.")
    for function in (detach, requires_grad_, register_hook, register_post_accumulate_grad_hook, retain_grad):
        setattr(target, function.__name__, function)
    target.backward = _backward
