"""The source code of the autograd kernel of an operator and of the methods of its nodes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Container, Iterable, Iterator
from operator import attrgetter
from types import FunctionType
from typing import Any, Final

import numpy as np

from ...core.device import CPU
from ...core.plans import Recorded
from ...core.storage import Storage
from ...core.tensor import Tensor, version_of
from ...core.word import REQUIRES_GRAD, WEAK_MASK
from ...dispatch.calling import codegen
from ...dispatch.keys import backend_mask, backends_in
from ...dispatch.operator import Operator
from ...dispatch.registry import registry
from ...dispatch.schema import Argument
from ...ops.builtin.reductions.gradient_sum import accumulate
from ...ops.declare.facets import formula_names, role_of
from ..formulas.gradients import Formula, same_gradient
from ..saved_tensors.raw import raw_saved
from ..saved_tensors.saved import SavedOutput, SavedTensor, as_saved, plain, save_input, unpack
from ..saved_tensors.saved_tensor_hooks import HOOKED, with_hooks
from ..tape.node import (
    DTYPE_OF_WORD,
    NO_EDGE,
    SEQUENCE,
    Node,
    OutputMeta,
    RecordedNode,
    TensorMeta,
    edge_of,
    leaf_edge,
    settle,
)
from ..views.tracking import ViewMeta, view_lines

__all__ = ["Writer", "node_name"]

_NAMED: Final = (
    SavedOutput, SavedTensor, Storage, Tensor, TensorMeta, ViewMeta, np.ndarray,
    edge_of, leaf_edge, plain, save_input, settle, unpack, version_of,
)  # fmt: skip
_SCOPE: Final[dict[str, Any]] = {function.__name__: function for function in _NAMED} | {
    "new": object.__new__, "Meta": OutputMeta, "NO_EDGE": NO_EDGE, "SEQUENCE": SEQUENCE, "WEAK_MASK": WEAK_MASK,
    "CPU": CPU,
}  # fmt: skip
"""The globals of the generated functions."""


def _is_list(argument: Argument) -> bool:
    return str(argument.type) not in ("Tensor", "Tensor?")


def _under(condition: str, lines: list[str]) -> list[str]:
    """Indent the lines under a condition; an empty condition always holds."""
    return [f"if {condition}:", *[f"    {line}" for line in lines]] if condition else lines


class Writer:
    """Writes the kernel and the node class of one operator."""

    def __init__(self, operator: Operator, formulas: dict[str, Formula | None]) -> None:
        self.operator = operator
        self.arguments = {a.name: a for a in operator.schema.arguments}
        self.formulas = {name: formula for name, formula in formulas.items() if formula is not None}
        tensors = [a for a in self.arguments.values() if a.type.is_tensor_like]
        self.tensors = [a.name for a in tensors]
        self.by_role = {role_of(operator.schema, a.name): a for a in self.arguments.values()}
        self.differentiable = [a for a in tensors if a.name in self.formulas]
        self.lists = [a.name for a in self.differentiable if _is_list(a)]
        self.scope: dict[str, Any] = dict(_SCOPE)
        self.users: dict[str, list[str]] = {}  # saved name -> the arguments whose formula needs it
        for argument, formula in self.formulas.items():
            for name in formula.names:
                if name != "g":
                    self.users.setdefault(name, []).append(argument)
        roles = [role for role, a in self.by_role.items() if a.type.is_tensor_like]
        self.saved = [name for name in [*roles, "out"] if name in self.users]

    def kernel(self, inner: Callable[..., Any], word: int) -> Callable[..., Any]:
        """Return the kernel around ``inner`` for a dispatch word."""
        # The CPU has one device, which need not be looked up.
        on_cpu = backends_in(word & backend_mask()) in (("CPU",), ())
        stays = on_cpu and not any("Device" in str(a.type) for a in self.arguments.values())
        node_class = self.node_class(on_cpu=stays)
        scope = {**self.scope, "inner": inner, "NodeClass": node_class, "DEVICE": CPU if on_cpu else None}
        filename = f"<autograd kernel of {self.operator.name}>"
        source = self.kernel_source(on_cpu=stays, by_position=self._takes_positions(inner))
        function: Any = codegen.define(source, scope, filename, self.operator.schema)
        if word & HOOKED:
            return with_hooks(function, node_class, self.saved)
        if stays:
            function.recorded = self._recorded(inner, node_class)
        return function  # type: ignore[no-any-return]

    def _recorded(self, inner: Callable[..., Any], node_class: type[Node]) -> Recorded | None:
        """Return what the kernel records, for the compiled core; None where it needs more than the core knows."""
        single = all(str(self.arguments[name].type) == "Tensor" for name in self.tensors)
        if not single or self.operator.schema.is_mutable:
            return None
        saves = []
        for name, users in self.users.items():
            argument = self.by_role.get(name)
            bits = sum(1 << i for i, a in enumerate(self.differentiable) if a.name in users)
            if name == "out":
                source = "out"
            elif argument is None:
                place = self.tensors.index(name.removesuffix("_meta"))
                source = f"{'own_meta' if self._has_own_meta(name) else 'meta'} {place}"
            elif argument.type.is_tensor_like:
                source = f"operand {self.tensors.index(argument.name)}"
            else:
                source = f"option {argument.name}"
            saves.append((f"saved_{name}", source, bits))
        edges = tuple([self.tensors.index(a.name) for a in self.differentiable])
        return Recorded(inner, node_class, edges, tuple(saves), "View" in self.operator.facets)

    def _takes_positions(self, function: Callable[..., Any]) -> bool:
        """Return whether a function takes all arguments by position, which is faster than by keyword."""
        if not isinstance(function, FunctionType):
            return False
        code = function.__code__
        return code.co_varnames[: code.co_argcount] == tuple(self.arguments)

    def kernel_source(self, *, on_cpu: bool = True, by_position: bool = False) -> str:
        """Return the source of the kernel; ``on_cpu``: its result is certainly on the CPU."""
        schema = self.operator.schema
        lines = [f"$out = $inner({', '.join(self.arguments) if by_position else codegen.call(schema)})"]
        for a in self.arguments.values():  # a cast to integers carries no gradient
            if "DType" in str(a.type):
                lines += _under(f"{a.name} is not None and $out._data.dtype.kind not in 'fcV'", ["return $out"])
        lines += ["$node = $NodeClass()", "$node.sequence_nr = $SEQUENCE.next()"]
        edges: list[str] = []
        for a in self.differentiable:
            if _is_list(a):
                lines.append(f"$edges_{a.name} = [$edge_of($item) for $item in {a.name}]")
                edges.append(f"*$edges_{a.name}, ")
            else:
                lines += self._edge_lines(a)
                edges.append(f"$edge_{a.name}, ")
        lines.append(f"$node.next_edges = ({''.join(edges)})")
        lines += ["$data = $out._data", "$node.shape = $data.shape"]
        if not on_cpu:
            lines += ["$node.dtype = $data.dtype", "$node._word = 0", "$settle($node, $out)"]
        lines += self._save_lines(on_cpu=on_cpu)
        meta = ["$meta = $Meta()", "$meta.node = $node", "$meta.edge = ($node, 0)"]
        lines += view_lines(meta) if "View" in self.operator.facets else meta
        word = f"$out._word | {REQUIRES_GRAD}"
        lines += [
            "$out._autograd = $meta",
            f"$node._word = $out._word = {word}" if on_cpu else f"$out._word = {word}",
            "return $out",
        ]
        return "\n    ".join([f"def kernel({codegen.parameters(schema)}):", *lines]) + "\n"

    def _edge_lines(self, argument: Argument) -> list[str]:
        name = argument.name
        test = f"{name}._word & {REQUIRES_GRAD}"
        if str(argument.type) == "Tensor?":
            test = f"{name} is not None and {test}"
        found = [
            f"$meta = {name}._autograd",
            f"$edge_{name} = None if $meta is None else $meta.edge",
            f"if $edge_{name} is None:",
            f"    $edge_{name} = $leaf_edge({name})",
        ]
        if len(self.tensors) == 1 and str(argument.type) == "Tensor":
            return found  # the only tensor is the reason for this call
        return [*_under(test, found), "else:", f"    $edge_{name} = $NO_EDGE"]

    def _if_needed(self, name: str, lines: list[str]) -> list[str]:
        """Put the lines that save a value under the condition that one of its users needs a gradient."""
        users = self.users[name]
        if len(self.differentiable) == 1 or len(self.lists) > 1:
            return lines  # the only differentiable argument is the reason for this call; see also _needed
        tests = [
            f"$any($e[0] is not None for $e in $edges_{user})"
            if _is_list(self.arguments[user])
            else f"$edge_{user}[0] is not None"
            for user in users
        ]
        return [*_under(" or ".join(tests), lines), "else:", f"    $node.saved_{name} = None"]

    def _save_lines(self, *, on_cpu: bool) -> list[str]:
        lines: list[str] = []
        for name in self.users:
            argument = self.by_role.get(name)
            if name == "out":
                saved = ["$node.saved_out = $SavedOutput.of($out)"]
                if on_cpu:
                    saved = [
                        "if $out._storage is None and $data.__class__ is $ndarray:",
                        "    $storage = $node.saved_out = $out._storage = $new($Storage)",
                        "    $storage.buffer = $data",
                        "    $storage.device = $CPU",
                        "    $storage.version = 0",
                        "else:",
                        *[f"    {line}" for line in saved],
                    ]
                lines += self._if_needed(name, saved)
            elif argument is None:  # "x_meta": shape, dtype and device of the argument x
                tensor = name.removesuffix("_meta")
                if _is_list(self.arguments[tensor]):
                    metas = f"[$TensorMeta($t.shape, $t.dtype, $t.device) for $t in {tensor}]"
                    lines += self._if_needed(name, [f"$node.saved_{name} = {metas}"])
                    continue
                described = f"$node.saved_{name} = $TensorMeta({tensor}.shape, {tensor}.dtype, {tensor}.device)"
                if not self._has_own_meta(name):
                    lines += self._if_needed(name, [described])
                    continue
                lines += [  # 0: the node has several outputs, or is on another device
                    f"if {'' if len(self.tensors) == 1 else f'$edge_{tensor}[0] is None or '}$edge_{tensor}[0]._word:",
                    f"    $node.saved_{name} = None",
                    "else:",
                    f"    {described}",
                ]
            elif str(argument.type) == "Tensor":
                saved = [  # Note [Values saved as they are]
                    f"if {argument.name}._storage is None:",
                    f"    $node.saved_{name} = {argument.name}",
                    "else:",
                    f"    $saved = $node.saved_{name} = $SavedTensor()",
                    f"    $saved.tensor = {argument.name}",
                    f"    $saved.version = $version_of({argument.name})",
                ]
                lines += self._if_needed(name, saved)
            elif argument.type.is_tensor_like:
                lines += self._if_needed(name, [f"$node.saved_{name} = $save_input({argument.name})"])
            else:
                lines.append(f"$node.saved_{name} = {argument.name}")
        return lines

    def _has_own_meta(self, name: str) -> bool:
        """Return whether a saved name is the ``x_meta`` of an argument whose formula alone needs it.

        Where this argument needs a gradient, the node that its edge leads to has shape, dtype and device already, and
        takes the place of the metadata in the formula.
        """
        tensor = name.removesuffix("_meta")
        return name not in self.by_role and name != "out" and self.users[name] == [tensor] and tensor not in self.lists

    def _apply_source(self) -> str:
        lines: list[str] = []
        results: list[str] = []
        shared = [name for name in self.saved if len(self.users[name]) > 1]  # unpacked once for all formulas
        for index, a in enumerate(self.differentiable):
            formula = self.formulas[a.name]
            star = "*" if _is_list(a) else ""
            if formula.function is same_gradient:  # also where it is not needed: the engine ignores it
                results.append(f"{star}{formula.names[0]}, ")
                continue
            own = self._value_lines(formula.names, shared, index)
            passed = ", ".join("g" if name == "g" else f"value_{name}" for name in formula.names)
            self.scope[f"formula_{a.name}"] = formula.function
            own.append(f"grad_{a.name} = formula_{a.name}({passed})")
            if len(self.differentiable) > 1 and len(self.lists) < 2:
                needed, nothing = self._needed(index)
                own = [f"grad_{a.name} = {nothing}", *_under(needed, own)]
            lines += own
            results.append(f"{star}grad_{a.name}, ")
        first = ["edges = self.next_edges"] if len(self.differentiable) > 1 and lines and len(self.lists) < 2 else []
        first += [f"value_{name} = None" for name in shared]
        first += self._joint_lines()
        return "\n    ".join(["def apply(self, g):", *first, *lines, f"return ({''.join(results)})"]) + "\n"

    def _value_lines(self, names: Iterable[str], shared: Container[str], index: int) -> list[str]:
        """Return the lines that read the values which the formula of an argument names."""
        lines: list[str] = []
        for name in names:
            if name in self.saved:
                value = [
                    f"saved = self.saved_{name}",
                    "if saved.__class__ is Tensor and saved._storage is None:",
                    f"    value_{name} = saved",
                    "elif (saved.__class__ is SavedTensor",
                    "        and (storage := saved.tensor._storage).__class__ is Storage",
                    "        and storage.version == saved.version):",
                    f"    value_{name} = saved.tensor",
                    "else:",
                    f"    value_{name} = unpack(saved, self, {name!r})",
                    f"if value_{name}.__class__ is not Tensor:",
                    f"    value_{name} = plain(value_{name})",
                ]
                lines += _under(f"value_{name} is None" if name in shared else "", value)
            elif name != "g":
                lines.append(f"value_{name} = self.saved_{name}")
                if self._has_own_meta(name):
                    place = f"self.next_edges[{self._place(index)}][0]"
                    lines += _under(f"value_{name} is None", [f"value_{name} = {place}"])
        return lines

    def _joint_lines(self) -> list[str]:
        """Return the lines that compute the gradients of all arguments at once, where all are needed."""
        facet = self.operator.facets.get("JointVjp")
        if facet is None:
            return []
        names = formula_names(facet.function)
        self.scope["joint_formula"] = facet.function
        passed = ", ".join("g" if name == "g" else f"value_{name}" for name in names)
        needed = " and ".join(self._needed(index)[0] for index in range(len(self.differentiable)))
        return _under(needed, [*self._value_lines(names, (), 0), f"return joint_formula({passed})"])

    def _add_source(self) -> str:
        """Return the source of the method that adds a gradient to that of the tensor of which the output is a part."""
        facet = self.operator.facets["Part"]
        self.scope |= {"part": facet.function, "accumulate": accumulate, "copy_": registry.find("tk::copy_").call}
        values = [{"x": "x", "g": "g"}.get(name, f"self.saved_{name}") for name in formula_names(facet.function)]
        lines = [f"view = part({', '.join(values)})", "total = accumulate(view, g, True)"]
        lines += _under("total is not view", ["copy_(view, total)"])  # a kernel need not write in place
        return "\n    ".join(["def _add(self, x, g):", *lines]) + "\n"

    def _needed(self, index: int) -> tuple[str, str]:
        """Return the condition that a differentiable argument needs a gradient, and the gradient if it does not.

        An argument behind the only list is counted from the end, because the list has an edge for each item. With
        several lists every formula runs.
        """
        if self.differentiable[index].name in self.lists:
            part = f"edges[{index}:len(edges) - {len(self.differentiable) - index - 1}]"
            return f"any([edge[0] is not None for edge in {part}])", f"[None] * len({part})"
        return f"edges[{self._place(index)}][0] is not None", "None"

    def _place(self, index: int) -> int:
        """Return the position of the edge of a differentiable argument that is not a list, from the end behind one."""
        is_behind = any(a.name in self.lists for a in self.differentiable[:index])
        return index - len(self.differentiable) if is_behind else index

    def node_class(self, *, on_cpu: bool = False) -> type[Node]:
        """Return the class of the nodes, with ``apply`` and ``release``."""
        operator, saved = self.operator, self.saved
        body: dict[str, Any] = {"operator_name": operator.name, "saves": bool(saved)}
        body["apply"] = codegen.define(self._apply_source(), self.scope, f"<gradient of {operator.name}>")
        if "Part" in operator.facets:
            body["_add"] = codegen.define(self._add_source(), self.scope, f"<sum of gradients of {operator.name}>")
        if on_cpu:
            body["dtype"] = DTYPE_OF_WORD
        if saved:
            lines = ["def release(self):"]
            for name in saved:  # a saved Python number is not worth freeing: x * 2 can run backward again
                lines += [
                    f"saved = self.saved_{name}",
                    "if saved.__class__ is not Tensor or not saved._word & WEAK_MASK:",
                    f"    self.saved_{name} = None",
                ]
            source = "\n    ".join([*lines, "self._released = True"]) + "\n"
            body["release"] = codegen.define(source, self.scope, f"<release of {operator.name}>")
        body["__slots__"] = tuple([f"saved_{name}" for name in self.users])
        body["_kept_values"] = _kept_values
        for name in self.users:
            if name in saved:
                body[f"_saved_{name}"] = property(functools.partial(_saved, name=name))
                body[f"_raw_saved_{name}"] = property(functools.partial(raw_saved, name=name))
            elif name in self.by_role:  # numbers, axes, flags
                body[f"_saved_{name}"] = property(attrgetter(f"saved_{name}"))
        aliases = {"result": "out"}  # PyTorch's names
        if self.tensors[:2] == ["x1", "x2"]:
            aliases |= {"self": "x1", "other": "x2"}
        elif self.tensors[:1] == ["x"]:
            aliases |= {"self": "x"}
        for theirs, ours in aliases.items():
            if ours in saved:
                body.setdefault(f"_saved_{theirs}", body[f"_saved_{ours}"])
                body.setdefault(f"_raw_saved_{theirs}", body[f"_raw_saved_{ours}"])
        return type(node_name(operator), (RecordedNode,), body)


def node_name(operator: Operator) -> str:
    """Return the name of the nodes of an operator."""
    return "".join(part.capitalize() for part in operator.schema.base_name.split("_")) + "Backward"


def _saved(node: Node, name: str) -> Any:
    return unpack(getattr(node, f"saved_{name}"), node, name)


def _kept_values(node: Any) -> Iterator[tuple[str, Any]]:
    """Yield the names and values that the formula needs, without unpacking tensors."""
    for field in type(node).__slots__:
        yield field[6:], as_saved(getattr(node, field), node)
