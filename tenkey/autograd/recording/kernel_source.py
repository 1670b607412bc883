"""The text of the autograd kernel of an operator, and of the class of its nodes."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

from ...core.device import CPU
from ...core.storage import Storage
from ...core.tensor import Tensor, version_of
from ...core.word import REQUIRES_GRAD, WEAK_MASK
from ...dispatch import codegen
from ...dispatch.keys import backend_mask, backends_in
from ...dispatch.operator import Operator
from ...dispatch.schema import Argument
from ..formulas.gradients import Formula, same_gradient
from ..saved_tensors.hooks import HOOKED, with_hooks
from ..saved_tensors.raw import raw_saved
from ..saved_tensors.saved import SavedOutput, SavedTensor, save_input, unpack
from ..tape.node import (
    DTYPE_OF_WORD,
    NO_EDGE,
    SEQUENCE,
    AutogradMeta,
    Node,
    TensorMeta,
    edge_of,
    leaf_edge,
    longest,
    settle,
)
from ..views.tracking import ViewMeta, view_lines

__all__ = ["Writer"]


def _is_list(argument: Argument) -> bool:
    return argument.type.is_tensor_like and not _is_single(argument)


def _is_single(argument: Argument) -> bool:
    return str(argument.type) in ("Tensor", "Tensor?")


class Writer:
    """Writes the kernel and the node class of one operator."""

    def __init__(self, operator: Operator, formulas: dict[str, Formula | None]) -> None:
        self.operator = operator
        self.arguments, self.formulas = operator.schema.arguments, formulas
        self.tensors = [a for a in self.arguments if a.type.is_tensor_like]
        self.scope: dict[str, Any] = {
            "new": object.__new__, "SEQUENCE": SEQUENCE, "leaf_edge": leaf_edge,
            "edge_of": edge_of, "longest": longest, "Meta": AutogradMeta, "REQUIRES_GRAD": REQUIRES_GRAD,
            "save_input": save_input, "save_output": SavedOutput, "unpack": unpack, "TensorMeta": TensorMeta,
            "Node": Node, "NO_EDGE": NO_EDGE, "SavedTensor": SavedTensor, "version_of": version_of,
            "SavedOutput": SavedOutput, "Storage": Storage, "WEAK_MASK": WEAK_MASK, "settle": settle,
            "ViewMeta": ViewMeta, "Tensor": Tensor,
        }  # fmt: skip
        self.users: dict[str, list[str]] = {}  # saved name -> the arguments whose formula needs it
        for argument, formula in self.formulas.items():
            for name in formula.names if formula is not None else ():
                self.users.setdefault(name, []).append(argument)

    def kernel_source(self, *, on_cpu: bool = True) -> list[str]:
        """The lines of the kernel; ``on_cpu``: its result is certainly there."""
        schema = self.operator.schema
        lines = [f"def kernel({codegen.parameters(schema)}):", f"    $out = $inner({codegen.call(schema)})"]
        for a in self.arguments:  # a cast to integers carries no gradient
            if "DType" in str(a.type):
                lines += [f"    if {a.name} is not None and $out._data.dtype.kind not in 'fcV':", "        return $out"]
        lines += ["    $node = $NodeClass()", "    $node.sequence_nr = $SEQUENCE.next()", "    $number = 0"]
        edges: list[str] = []
        simple = all(_is_single(a) or self.formulas.get(a.name) is None for a in self.tensors)
        for a in self.tensors:
            name = a.name
            if self.formulas.get(name) is None:
                continue
            if _is_list(a):
                lines.append(f"    $edges_{name} = [$edge_of($item) for $item in {name}]")
                edges.append(f"*$edges_{name}")
                continue
            lines += self._edge_lines(name, optional=str(a.type) == "Tensor?", first=not edges)
            edges.append(f"$edge_{name}")
        lines.append(f"    $node.next_edges = ({', '.join(edges)}{',' if edges else ''})")
        lines.append("    $node.topological_nr = " + ("$number" if simple else "$longest($node.next_edges)"))
        lines += ["    $data = $out._data", "    $node.shape = $data.shape"]
        if not on_cpu:
            lines += ["    $node.dtype = $data.dtype", "    $settle($node, $out)"]
        lines += self._save_lines()
        meta = ["    $meta = $Meta()", "    $meta.node = $node", "    $meta.edge = ($node, 0)"]
        lines += view_lines(meta) if "View" in self.operator.facets else meta
        lines.append("    $out._autograd = $meta")
        word = f"$out._word | {REQUIRES_GRAD}"
        lines.append(f"    $node._word = $out._word = {word}" if on_cpu else f"    $out._word = {word}")
        lines.append("    return $out")
        return lines

    def _edge_lines(self, name: str, *, optional: bool, first: bool) -> list[str]:
        test = (
            f"{name} is not None and {name}._word & {REQUIRES_GRAD}" if optional else f"{name}._word & {REQUIRES_GRAD}"
        )
        return [
            f"    if {test}:",
            f"        $meta = {name}._autograd",
            f"        $edge_{name} = None if $meta is None else $meta.edge",
            f"        if $edge_{name} is None:",
            f"            $edge_{name} = $leaf_edge({name})",
            *(
                [f"        $number = $edge_{name}[0].topological_nr + 1"]
                if first
                else [
                    f"        $depth = $edge_{name}[0].topological_nr + 1",
                    "        if $depth > $number:",
                    "            $number = $depth",
                ]
            ),
            "    else:",
            f"        $edge_{name} = $NO_EDGE",
        ]

    def _needed(self, users: list[str]) -> str:
        """A condition: one of these arguments needs a gradient. Empty if that is certain."""
        single = {a.name for a in self.tensors if _is_single(a)}
        if len([a for a in self.tensors if self.formulas.get(a.name) is not None]) == 1:
            return ""  # the only differentiable argument is the reason for this call
        return " or ".join(
            f"$edge_{user}[0] is not None" if user in single else f"$any($e[0] is not None for $e in $edges_{user})"
            for user in users
        )

    def _save_lines(self) -> list[str]:
        lines: list[str] = []
        known = {a.name: a for a in self.arguments}
        for name, users in self.users.items():
            if name == "g":
                continue
            if name == "out":
                lines += [
                    "    $storage = $out._storage",
                    "    if $storage is None:",
                    "        $storage = $out._storage = $new($Storage)",
                    "        $storage.buffer = $data",
                    "        $storage.device = $DEVICE or $out.device",
                    "        $storage.version = 0",
                    "    if $storage.__class__ is $Storage:",
                    "        $saved = $node.saved_out = $new($SavedOutput)",
                    "        $saved.data = None if $storage.buffer is $data else $data",
                    "        $saved.word = $out._word",
                    "        $saved.storage = $storage",
                    "        $saved.version = $storage.version",
                    "        $saved.output_nr = 0",
                    "    else:",
                    "        $node.saved_out = $save_output($out)",
                ]
                continue
            if name in known and str(known[name].type) == "Tensor":
                needed = self._needed(users)
                indent = "        " if needed else "    "
                lines += [f"    if {needed}:"] if needed else []
                lines += [
                    f"{indent}$saved = $node.saved_{name} = $new($SavedTensor)",
                    f"{indent}$saved.tensor = {name}",
                    f"{indent}$saved.version = 0 if {name}._storage is None else $version_of({name})",
                ]
                continue
            if name in known and known[name].type.is_tensor_like:
                value = f"$save_input({name})"
            elif name in known:
                value = name
            else:
                tensor = name.removesuffix("_meta")
                if not _is_list(known[tensor]):
                    needed = self._needed(users)
                    indent = "        " if needed else "    "
                    lines += [f"    if {needed}:"] if needed else []
                    lines += [
                        f"{indent}$meta = $node.saved_{name} = $new($TensorMeta)",
                        f"{indent}$source = {tensor}._data",
                        f"{indent}$meta.shape = $source.shape",
                        f"{indent}$meta.dtype = $source.dtype",
                        f"{indent}$meta.device = $DEVICE or {tensor}.device",
                    ]
                    continue
                value = f"[$TensorMeta($t.shape, $t.dtype, $t.device) for $t in {tensor}]"
            if name in known and not known[name].type.is_tensor_like:
                lines.append(f"    $node.saved_{name} = {value}")
                continue
            needed = self._needed(users)
            lines += (
                [f"    if {needed}:", f"        $node.saved_{name} = {value}"]
                if needed
                else [f"    $node.saved_{name} = {value}"]
            )
        return lines

    def node_class(self, *, on_cpu: bool = False) -> type[Node]:
        """The class of the nodes: ``apply`` and ``release``."""
        lines = ["def apply(self, g):"]
        results: list[str] = []
        known = {a.name: a for a in self.arguments}
        index = 0
        shared = [n for n, users in self.users.items() if len(users) > 1 and (n == "out" or n in known)]
        simple = all(_is_single(a) or self.formulas.get(a.name) is None for a in self.tensors)
        for a in self.tensors:
            formula = self.formulas.get(a.name)
            if formula is None:
                continue
            self.scope[f"formula_{a.name}"] = formula.function
            only = len([x for x in self.tensors if self.formulas.get(x.name) is not None]) == 1
            indent = "    "
            if formula.function is same_gradient:  # also where nobody needs it: the engine knows
                results.append(f"*{formula.names[0]}" if _is_list(a) else formula.names[0])
                index += 1
                continue
            if not only and simple:
                lines += [f"    grad_{a.name} = None", f"    if edges[{index}][0] is not None:"]
                indent = "        "
            for name in formula.names:
                if name == "g":
                    continue
                is_saved = name == "out" or (name in known and known[name].type.is_tensor_like)
                if is_saved:
                    once = [f"if value_{name} is None:"] if name in shared else []  # unpacked for all its formulas
                    lines += [indent + line for line in once]
                    lines += [
                        indent + "    " * len(once) + line
                        for line in (
                            f"saved = self.saved_{name}",
                            "if saved.__class__ is SavedTensor and ((storage := saved.tensor._storage) is None",
                            "        or storage.__class__ is Storage and storage.version == saved.version):",
                            f"    value_{name} = saved.tensor",
                            "else:",
                            f"    value_{name} = unpack(saved, self, {name!r})",
                        )
                    ]
                else:
                    lines.append(f"{indent}value_{name} = self.saved_{name}")
            passed = ", ".join("g" if n == "g" else f"value_{n}" for n in formula.names)
            call = "g" if formula.function is same_gradient else (f"formula_{a.name}({passed})")
            lines.append(f"{indent}grad_{a.name} = {call}")
            results.append(f"*grad_{a.name}" if _is_list(a) else f"grad_{a.name}")
            index += 1
        lines[1:1] = [f"    value_{name} = None" for name in shared]
        if any("edges[" in line for line in lines):
            lines.insert(1, "    edges = self.next_edges")
        lines.append(f"    return ({', '.join(results)}{',' if results else ''})")
        saved = [n for n in self.users if n == "out" or (n in known and known[n].type.is_tensor_like)]
        release = ["def release(self):"]
        for n in saved:  # a Python number that was saved is no memory worth freeing: x * 2 can run backward again
            release += [
                f"    saved = self.saved_{n}",
                "    if saved.__class__ is not SavedTensor or not saved.tensor._word & WEAK_MASK:",
                f"        self.saved_{n} = None",
            ]
        release += ["    self._released = True"]
        apply = codegen.define("\n".join(lines) + "\n", self.scope, f"<gradient of {self.operator.name}>")
        body: dict[str, Any] = {"apply": apply, "operator_name": self.operator.name}
        body["saves"] = bool(saved)
        if on_cpu:
            body["dtype"] = DTYPE_OF_WORD
        if saved:
            text = "\n".join(release) + "\n"
            body["release"] = codegen.define(text, self.scope, f"<release of {self.operator.name}>")
        body |= {f"saved_{n}": None for n in self.users if n != "g"}
        for n in saved:
            body[f"_saved_{n}"] = property(_saved_reader(n))
            body[f"_raw_saved_{n}"] = property(functools.partial(raw_saved, name=n))
        for n in self.users:
            if n in known and n not in saved:  # numbers, axes, flags
                body[f"_saved_{n}"] = property(operator.attrgetter(f"saved_{n}"))
        own = tuple([a.name for a in self.tensors[:2]])  # PyTorch's names are other ones
        names = {"result": "out"} | (
            {"self": "x1", "other": "x2"} if own == ("x1", "x2") else {"self": "x"} if own[:1] == ("x",) else {}
        )
        for theirs, ours in names.items():
            if ours in saved:
                body.setdefault(f"_saved_{theirs}", body[f"_saved_{ours}"])
                body.setdefault(f"_raw_saved_{theirs}", body[f"_raw_saved_{ours}"])
        name = "".join(part.capitalize() for part in self.operator.schema.base_name.split("_")) + "Backward"
        return type(name, (Node,), body)

    def kernel(self, inner: Callable[..., Any], word: int) -> Callable[..., Any]:
        """The kernel around ``inner`` for a dispatch word."""
        # on the CPU, which has one device, nobody needs to ask the tensor
        on_cpu = backends_in(word & backend_mask()) in (("CPU",), ())
        stays = on_cpu and not any("Device" in str(a.type) for a in self.arguments)
        filename = f"<autograd kernel of {self.operator.name}>"
        source = "\n".join(self.kernel_source(on_cpu=stays)) + "\n"
        scope = {
            **self.scope,
            "inner": inner,
            "NodeClass": self.node_class(on_cpu=stays),
            "DEVICE": CPU if on_cpu else None,
        }
        function = codegen.define(source, scope, filename, self.operator.schema)
        if not word & HOOKED:
            return function
        saved = [a.name for a in self.tensors if a.name in self.users] + ["out"] * ("out" in self.users)
        return with_hooks(function, scope["NodeClass"], saved)


def _saved_reader(name: str) -> Callable[[Any], Any]:
    def read(self: Any) -> Any:
        saved = getattr(self, f"saved_{name}")
        return unpack(saved, self, name)

    return read
