"""One call of an operator: its tensors as arrays, and a template for calls with other tensors."""

from __future__ import annotations

import inspect
import textwrap
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

import tenkey as tk

from ...core.device import Device
from ...core.dtypes.names import is_inexact
from ...core.tensor import Tensor
from ...core.tree import map_tensors
from ...dispatch.calling.arguments import convert_argument
from ...dispatch.calling.overloads import OperatorPacket
from ...dispatch.errors import ArgumentError, OperatorNotFoundError, TenkeyError, shown
from ...dispatch.operator import Operator
from ...dispatch.registry import registry
from ...library.custom_operator import CustomOperator
from .labels import Labelled, host_values, leaves_of, results_of

__all__ = ["Failure", "Leaf", "Sample", "Skipped", "described", "is_deliberate", "operator_of"]

_PACKAGE: Final = str(Path(tk.__file__).parent)


class Failure(Exception):  # noqa: N818 -- a finding about the operator, not an error of the check
    """The text of a failed row: what is wrong with the operator and what to change."""


class Skipped(Exception):  # noqa: N818 -- as above
    """The reason why a check does not apply."""


class Warned(Skipped):
    """The reason why a check does not apply although the sample indicates that it should."""


class Leaf(NamedTuple):
    """One tensor of the call; ``array`` has its values and strides, ``marked`` its ``requires_grad``."""

    label: str
    array: np.ndarray[Any, Any]
    mutable: bool
    marked: bool
    device: Device


def operator_of(op: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Operator, Callable[..., Any]]:
    """Return the operator for a name, packet, function or custom operator, and the callable."""
    if isinstance(op, str):
        if registry.derive(op) is not None:
            op = registry.find(op)
        elif registry.overloads(op):
            op = registry.packet(op)
        else:
            raise OperatorNotFoundError(registry.unknown(op))
    if isinstance(op, CustomOperator):
        return op.operator, op
    if isinstance(op, OperatorPacket):
        return _overload(op, args, kwargs)
    if isinstance(op, Operator):
        return op, op.call
    found = getattr(op, "operator", None)
    if not isinstance(found, Operator):
        raise ArgumentError(
            f"[opcheck] {shown(op)} of type {type(op).__name__} is not an operator: give the result of "
            "tk.library.custom_op or tk.library.pointwise, tk.ops.<namespace>.<name>, a function of tenkey such as "
            "tk.exp, or the name 'namespace::name'."
        )
    return found, found.call


def _overload(packet: OperatorPacket, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Operator, Any]:
    candidates = registry.overloads(str(packet))
    for operator in candidates[:-1]:
        try:
            bound = operator.bind(*args, **kwargs)
            for argument in operator.schema.arguments:
                convert_argument(operator, argument, bound[argument.name])
        except (TypeError, ValueError, OverflowError):
            continue
        return operator, operator.call
    if not candidates:
        raise OperatorNotFoundError(registry.unknown(str(packet)))
    return candidates[-1], candidates[-1].call


def described(error: BaseException) -> str:
    """Describe an exception from an operator: ``ValueError: text (kernels.py:12)``."""
    frames = traceback.extract_tb(error.__traceback__)
    interactive = ("<stdin", "<ipython", "<doctest")  # other names in "<" are of generated code
    own = [f for f in frames if not f.filename.startswith((_PACKAGE, "<")) or f.filename.startswith(interactive)]
    place = f" ({Path(own[-1].filename).name}:{own[-1].lineno})" if own else ""
    text = textwrap.shorten(str(error), 600, placeholder=" ...") or "no text"
    text = text if text.endswith("...") else text.rstrip(".")
    return f"{type(error).__name__}: {text}{place}"


def is_deliberate(error: BaseException) -> bool:
    """Return whether an exception is of a kind that code raises deliberately."""
    return isinstance(error, (TenkeyError, ValueError, RuntimeError, TypeError)) and not isinstance(
        error, RecursionError
    )


class Sample:
    """The call ``call(*args, **kwargs)``; its methods call it with fresh copies of the tensors."""

    def __init__(
        self, operator: Operator, call: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any] | None
    ) -> None:
        if not isinstance(args, (tuple, list)):
            raise ArgumentError(
                f"[opcheck] args is the tuple of the operator's arguments, got {type(args).__name__}: write "
                "opcheck(op, (x,))."
            )
        if kwargs is not None and not isinstance(kwargs, dict):
            raise ArgumentError(f"[opcheck] kwargs is a dict of keyword arguments, got {type(kwargs).__name__}.")
        self.operator = operator
        self.call = call
        self.args = tuple(args)
        self.kwargs = dict(kwargs or {})
        try:
            inspect.signature(operator.call).bind(*self.args, **self.kwargs)
        except TypeError as error:
            raise ArgumentError(f"[opcheck] the sample does not fit {operator.schema}: {error}.") from None
        mutable = {a.name for a in operator.schema.arguments if a.is_mutable}
        self.leaves: list[Leaf] = []
        names = [a.name for a in operator.schema.arguments if not a.kwarg_only]
        for name, value in [*zip(names, self.args), *self.kwargs.items()]:
            for label, item in leaves_of(value, name):
                if isinstance(item, Tensor):
                    if item.device.type == "meta":
                        raise ArgumentError(
                            f"[opcheck] the sample's tensor '{label}' is on 'meta' and has no values: make it on "
                            "another device."
                        )
                    array = np.array(item.detach().numpy(), order="K")
                    self.leaves.append(Leaf(label, array, name in mutable, item.requires_grad, item.device))
        self.device = self.leaves[0].device if self.leaves else tk.asarray(0).device

    @property
    def labels(self) -> list[str]:
        """The label of each tensor of the call."""
        return [leaf.label for leaf in self.leaves]

    @property
    def arrays(self) -> list[np.ndarray[Any, Any]]:
        """The values of the tensors."""
        return [leaf.array for leaf in self.leaves]

    @property
    def floating(self) -> list[int]:
        """The tensors to differentiate: the floating-point ones, or those of them that the user marked."""
        found = [i for i, leaf in enumerate(self.leaves) if is_inexact(leaf.array.dtype)]
        marked = [i for i in found if self.leaves[i].marked]
        return marked or found

    def tensors(
        self, arrays: Sequence[np.ndarray[Any, Any]] | None = None, gradient: Sequence[int] = ()
    ) -> list[Tensor]:
        """Make tensors with these values (default: the sample's) on the sample's devices."""
        made: list[Tensor] = []
        for i, (leaf, array) in enumerate(zip(self.leaves, self.arrays if arrays is None else arrays)):
            tensor = tk.asarray(np.array(array, order="K"))
            if leaf.device.type != "cpu":
                tensor = tensor.to_device(leaf.device)
            if i in gradient:
                tensor.requires_grad_()
            made.append(tensor)
        return made

    def fix_seed(self) -> None:
        """Let every call draw the same numbers from tenkey's generator."""
        generator, call = tk.random.default_generator(), self.call
        state = generator.get_state()

        def seeded(*args: Any, **kwargs: Any) -> Any:
            generator.set_state(state)
            return call(*args, **kwargs)

        self.call = seeded

    def run(self, tensors: Sequence[Tensor]) -> Any:
        """Call the operator with these tensors in place of the sample's."""
        remaining = iter(tensors)
        args, kwargs = map_tensors(lambda _: next(remaining), (self.args, self.kwargs))
        return self.call(*args, **kwargs)

    def wait(self) -> None:
        """Wait until the work of the calls is done: a kernel of a device other than the CPU may fail later."""
        for kind in {leaf.device.type for leaf in self.leaves} - {"cpu"}:
            tk.backends.synchronize(kind)

    def results(self, tensors: Sequence[Tensor]) -> list[Labelled]:
        """Return the parts of the result, then the arguments that the operator changes."""
        made = results_of(self.run(tensors))
        known = {id(part.value) for part in made}
        changed = [
            Labelled(f"the changed '{leaf.label}'", tensor)
            for leaf, tensor in zip(self.leaves, tensors)
            if leaf.mutable and id(tensor) not in known
        ]
        return made + changed

    def tensor_results(self, tensors: Sequence[Tensor]) -> list[Labelled]:
        """Return the tensors among :meth:`results`."""
        return [part for part in self.results(tensors) if isinstance(part.value, Tensor)]

    def function(self, arrays_of: Sequence[Tensor]) -> list[Labelled]:
        """Call the operator without side effects: it changes copies of its arguments."""
        copies = [t.clone() if leaf.mutable else t for leaf, t in zip(self.leaves, arrays_of)]
        return self.tensor_results(copies)

    def evaluate(self, arrays: Sequence[np.ndarray[Any, Any]] | None = None) -> list[Labelled]:
        """Return the values of all tensor results as arrays."""
        return host_values(self.tensor_results(self.tensors(arrays)))
