"""The text of the kernels that sweep over rows.

Note [Forms of row kernels]
~~~~~~~~~~~~~~~~~~~~~~~~~~~
*Group*: a group of 1 to 32 lanes takes a row, whose elements stay in registers: memory is read and written once. Sums
go from lane to lane by shuffles, and all lanes of a group have the same result. *Block*: a block takes a row in the
same way; its warps exchange their parts through shared memory, in places of their own for each number, so that a sweep
has one barrier. *Long*: a block walks along a row that registers do not hold, once for each sweep of Note [Sweeps of
long rows]. Where values are summed over all rows, a block takes every so many of them, and keeps its sums in registers
to the end; a reduction joins those of the blocks. A thread has ``slots`` pieces of ``width`` adjacent elements, which
it moves in one access of up to 128 bits if all rows are aligned. A piece beyond the end reads the first one of the row,
and counts as nothing. Everything is computed in float32 or float64, in an order that depends on the shape and the
alignment alone. Guarded by ``tests/backends/cuda/kernels/sweeps/test_sweeping.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np

from .....ops.scalar import exp as exponential
from .....ops.scalar import make as operation
from .....ops.scalar import maximum, minimum, variable, where
from ....external.scalar_function import RowArray, RowFunction, ScalarFunction
from ....external.templates import identity
from ...compiling import KernelSource
from ..emission import TYPES
from ..places import inner
from ..pointwise import element_source, kernel_name
from ..registers import shuffled
from .sweep_steps import Fold, Step, of_long_rows, of_registers

__all__ = ["Form", "sweep_source"]

_WARP: Final = 32
_GROUPS: Final = 256  # threads of a block of groups
_GROUP: Final = 4  # elements of one call of a function, which shortens the text to compile
_MOMENTS: Final = """\
def moments_share(n, other):
    both = n + other
    return select(both > <T>(0), divide(other, both), <T>(0))
"""


class Form(NamedTuple):
    """How a kernel divides rows among threads: ``lanes`` to a row, each with ``slots`` pieces of ``width`` elements."""

    lanes: int
    slots: int
    width: int
    is_long: bool = False

    @property
    def threads(self) -> int:
        """The threads of a block."""
        return max(self.lanes, _GROUPS) if self.lanes <= _WARP else self.lanes

    @property
    def name(self) -> str:
        """The name, as a part of the kernel's."""
        kind = "long" if self.is_long else "group" if self.lanes <= _WARP else "block"
        return f"rows_{kind}{self.lanes}_{'vector' if self.width > 1 else 'piece'}{self.width}x{self.slots}"


def sweep_source(function: RowFunction, form: Form) -> KernelSource:
    """Return the kernel (rows, columns, numbers..., outs, inputs with the steps of rows)."""
    return _Text(function, form).source()


class _Text:
    """The text of one kernel. Numbers of a row are called ``n_NAME``, values of an element ``e_NAME_PLACE``."""

    def __init__(self, function: RowFunction, form: Form) -> None:
        self.function = function
        self.form = form
        self.kind = TYPES[str(function.dtype)]
        self.arrays = {array.name: array for array in function.inputs}
        self.results = {array.name: array for array in function.results}
        self.steps = of_long_rows(function) if form.is_long else of_registers(function)
        self.functions: dict[str, str] = {}  # device functions by their text
        self.kept: set[str] = set()  # inputs whose elements are in registers
        self.shared: list[str] = []
        self.count = form.slots * form.width  # elements of a thread
        self.size = min(self.count, _GROUP)  # elements of a group

    # ---- functions

    def named(self, name: str, text: str) -> str:
        """Return the name of the device function with this text, in which it is ``<NAME>``."""
        return self.functions.setdefault(text, f"{kernel_name(name)}_{len(self.functions)}")

    def device(self, name: str, scalar: ScalarFunction, operands: Sequence[np.dtype], result: np.dtype) -> str:
        """Return the name of the device function of an expression."""
        return self.named(name, element_source(scalar, operands, result, "<NAME>"))

    def compute(self, name: str, scalar: ScalarFunction) -> str:
        """Return the name of a device function of numbers in the dtype of the computation."""
        return self.device(name, scalar, [self.function.dtype] * len(scalar.parameters), self.function.dtype)

    def built(self, name: str, parameters: tuple[str, ...], expression: object) -> str:
        """Return the name of the device function of an expression."""
        return self.compute(name, ScalarFunction(name, parameters, expression, self.function.dtype))  # type: ignore[arg-type]

    def conversion(self, source: np.dtype, target: np.dtype) -> str:
        """Return the name of the device function that converts a number."""
        same = ScalarFunction("convert", ("x",), identity(self.function.dtype), self.function.dtype)
        return self.device("convert", same, [source], target)

    def converted(self, value: str, source: np.dtype, target: np.dtype) -> str:
        """Return a number as one of another dtype."""
        return value if source == target else f"{self.conversion(source, target)}({value})"

    def joined(self, way: str, a: str, b: str) -> str:
        """Return the combination of two numbers."""
        if way == "add":
            return f"{a} + {b}"
        x, y = variable("a"), variable("b")
        return f"{self.built(way, ('a', 'b'), maximum(x, y) if way == 'maximum' else minimum(x, y))}({a}, {b})"

    def power(self, x: str, origin: str) -> str:
        """Return ``exp(x - origin)``, which is 1 where both are the same infinity."""
        a, b = variable("a"), variable("b")
        same = where(operation("equal", a, b), 1, exponential(a - b))
        return f"{self.built('power', ('a', 'b'), same)}({x}, {origin})"

    def called(self, scalar: ScalarFunction) -> str:
        """Return the call of a function of the numbers of the row."""
        return f"{self.compute(scalar.name, scalar)}({', '.join([f'n_{name}' for name in scalar.parameters])})"

    def _is_element(self, name: str) -> bool:
        if name in self.arrays:
            return self.arrays[name].role != "each"
        return any(name == element for step in self.steps for element, _ in step.elements)

    # ---- elements

    def places(self, first: str) -> list[str]:
        """Return the statements for the place of each slot, and whether it lies in the row."""
        lines = []
        for k in range(self.form.slots):
            at = f"wrap_add({first}, uint32({k * self.form.lanes * self.form.width}))" if k else first
            lines += [
                f"place_{k} = {at}",
                f"in_{k} = place_{k} < columns",
                f"place_{k} = select(in_{k}, place_{k}, uint32(0))",
            ]
        return lines

    def loaded(self, names: Iterable[str], starts: Sequence[int]) -> list[str]:
        """Return the statements that load elements of inputs for the groups that begin at these places."""
        lines = []
        width = self.form.width
        for name in sorted(names):
            array = self.arrays[name]
            is_converted = array.dtype != self.function.dtype
            for start in starts:
                for i in range(start, start + self.size, width):
                    place = f"uint64(place_{i // width})"
                    at = place if array.role == "column" else f"wrap_add(b_{name}, {place})"
                    targets = [f"{'r' if is_converted else 'e'}_{name}_{i + j}" for j in range(width)]
                    load = f"p_{name}[{at}]" if width == 1 else f"load_vector{width}(p_{name}, {at})"
                    lines.append(f"{', '.join(targets)} = {load}")
            if is_converted:
                convert = self.conversion(array.dtype, self.function.dtype)
                lines += self.mapped(f"e_{name}", convert, starts, f"r_{name}")
        return lines

    def computed(self, step: Step) -> list[str]:
        """Return the statements that load, compute the values of the elements and store the results.

        What all rows share is loaded where it is used, so that it occupies few registers.
        """
        inputs = {name for name in step.used() if name in self.arrays and self.arrays[name].role != "each"}
        columns = {name for name in inputs if self.arrays[name].role == "column"}
        late = columns & {name for _, f in step.elements for name in f.parameters} if step.stored else set()
        starts = range(0, self.count, self.size)
        lines = self.loaded(inputs - late - self.kept, starts)
        for start in starts:
            lines += self.loaded(late, [start])
            for name, f in step.elements:
                lines += self.mapped(f"e_{name}", f, [start])
            for name in sorted(step.stored):
                for k in range(start // self.form.width, (start + self.size) // self.form.width):
                    lines += [f"if {self.inside(k)}:", *inner(self.stored(name, k))]
        if not self.form.is_long:
            self.kept |= inputs - columns
        return lines

    def inside(self, slot: int) -> str:
        """Return the condition that the elements of a slot exist."""
        return f"in_{slot} & valid" if self.form.lanes <= _WARP else f"in_{slot}"

    def stored(self, name: str, slot: int) -> list[str]:
        """Return the statements that store the elements of a slot."""
        width, dtype = self.form.width, self.results[name].dtype
        values = [self.converted(f"e_{name}_{slot * width + j}", self.function.dtype, dtype) for j in range(width)]
        return self.written(name, slot, values)

    def written(self, name: str, slot: int, values: Sequence[str]) -> list[str]:
        """Return the statements that write numbers to the place of a slot."""
        at = f"wrap_add(base, uint64(place_{slot}))"
        if len(values) == 1:
            return [f"p_{name}[{at}] = {values[0]}"]
        return [f"store_vector{len(values)}(p_{name}, {at}, {', '.join(values)})"]

    # ---- folds

    def neutral(self, way: str) -> str:
        """Return the number that changes nothing."""
        return f"{self.kind}({ {'add': '0', 'maximum': '-INFINITY', 'minimum': 'INFINITY'}[way] })"

    def combined(self, to: str, way: str, f: ScalarFunction, around: str = "{0}", extra: str = "") -> list[str]:
        """Return the statements that combine a function of all elements that exist, as a tree of groups.

        ``around`` is what is combined, with ``{0}`` for the value of the function; it may use the variable ``extra``.
        """
        width, size = self.form.width, self.size
        call, parameters, arguments = self.group_of(f, size)
        lines = []
        for j in range(size):
            value = around.format(call(j)).replace(extra, "extra") if extra else around.format(call(j))
            lines.append(f"    v{j} = select(i{j}, {value}, {self.neutral(way)})")
        lines += inner(self.tree(way, [f"v{j}" for j in range(size)]))
        given = [*[f"i{j}" for j in range(size)], *parameters, *(["extra"] if extra else [])]
        text = "\n".join([f"def <NAME>({', '.join(given)}):", *lines, "    return v0", ""])
        name = self.named("group", text)
        made = []
        for start in range(0, self.count, size):
            flags = [f"in_{i // width}" for i in range(start, start + size)]
            values = [*flags, *arguments(start), *([extra] if extra else [])]
            made.append(f"{to}_{start} = {name}({', '.join(values)})")
        left = [f"{to}_{start}" for start in range(0, self.count, size)]
        return [*made, *self.tree(way, left), f"{to} = {left[0]}"]

    def mapped(self, to: str, f: ScalarFunction | str, starts: Sequence[int], source: str = "") -> list[str]:
        """Return the statements that compute a function of each element, in groups that begin at these places.

        ``f`` may be the name of a device function of one number; ``source`` is then where the numbers are.
        """
        size = self.size
        if isinstance(f, str):
            groups = [[f"{source}_{i}" for i in range(start, start + size)] for start in starts]
            calls = [f"{f}(a{j})" for j in range(size)]
            parameters = [f"a{j}" for j in range(size)]
        else:
            call, parameters, arguments = self.group_of(f, size)
            groups = [arguments(start) for start in starts]
            calls = [call(j) for j in range(size)]
        name = self.named("each", f"def <NAME>({', '.join(parameters)}):\n    return {', '.join(calls)}\n")
        lines = []
        for start, given in zip(starts, groups, strict=True):
            targets = [f"{to}_{i}" for i in range(start, start + size)]
            lines.append(f"{', '.join(targets)} = {name}({', '.join(given)})")
        return lines

    def group_of(
        self, f: ScalarFunction, size: int
    ) -> tuple[Callable[[int], str], list[str], Callable[[int], list[str]]]:
        """Return the call of a function for one element of ``size``, its parameters, the arguments from a place."""
        function = self.compute(f.name, f)
        elements = [p for p in f.parameters if self._is_element(p)]
        numbers = [p for p in f.parameters if p not in elements]
        parameters = [f"{p}_{j}" for j in range(size) for p in elements] + [f"n_{p}" for p in numbers]
        if f.indices:
            parameters += [f"place_{j}" for j in range(size)]

        def call(j: int) -> str:
            values = [f"{p}_{j}" if p in elements else f"n_{p}" for p in f.parameters]
            return f"{function}({', '.join([*values, *([f'int64(place_{j})'] if f.indices else [])])})"

        def arguments(start: int) -> list[str]:
            values = [f"e_{p}_{start + j}" for j in range(size) for p in elements] + [f"n_{p}" for p in numbers]
            if f.indices:
                pairs = [divmod(start + j, self.form.width) for j in range(size)]
                values += [f"wrap_add(place_{slot}, uint32({part}))" for slot, part in pairs]
            return values

        return call, parameters, arguments

    def tree(self, way: str, values: list[str]) -> list[str]:
        """Return the statements that combine variables in the first of them."""
        lines = []
        while len(values) > 1:
            lines += [f"{a} = {self.joined(way, a, b)}" for a, b in zip(values[::2], values[1::2], strict=True)]
            values = values[::2]
        return lines

    def parts(self, fold: Fold) -> tuple[str, ...]:
        """Return the variables that hold a fold while it is made."""
        if fold.way == "moments":
            return (f"m_{fold.name}_count", f"m_{fold.name}_mean", f"m_{fold.name}_squares")
        return (f"n_{fold.name}", f"n_{fold.other}") if fold.way == "running_sum" else (f"n_{fold.name}",)

    def begun(self, fold: Fold) -> list[str]:
        """Return the statements that begin a fold."""
        if fold.way == "running_sum":
            first, second = self.parts(fold)
            return [f"{first} = {self.neutral('maximum')}", f"{second} = {self.kind}(0)"]
        zero = f"{self.kind}(0)"
        return [f"{part} = {self.neutral(fold.way) if fold.way != 'moments' else zero}" for part in self.parts(fold)]

    def local(self, fold: Fold) -> list[str]:
        """Return the statements that combine the elements of the slots, in variables with ``_here``."""
        here = [f"{part}_here" for part in self.parts(fold)]
        if fold.way == "running_sum":
            powers = self.combined(here[1], "add", fold.element, self.power("{0}", here[0]), here[0])
            return [*self.combined(here[0], "maximum", fold.element), *powers]
        if fold.way == "moments":
            n, mean, squares = here
            pieces = [f"select(in_{k}, {self.kind}({self.form.width}), {self.kind}(0))" for k in range(self.form.slots)]
            away = "square({0} - " + mean + ")"
            self.functions.setdefault("def square(x):\n    return x * x\n", "square")
            return [
                f"{n} = {' + '.join(pieces)}",
                *self.combined(mean, "add", fold.element),
                f"{mean} = divide({mean}, select(in_0, {n}, {self.kind}(1)))",
                *self.combined(squares, "add", fold.element, away, mean),
            ]
        return self.combined(here[0], fold.way, fold.element)

    def merged(self, fold: Fold, suffix: str) -> list[str]:
        """Return the statements that join what the variables with a suffix hold."""
        own = self.parts(fold)
        other = [f"{part}{suffix}" for part in own]
        if fold.way == "running_sum":
            top = f"{own[0]}_top"
            return [
                f"{top} = {self.joined('maximum', own[0], other[0])}",
                f"{own[1]} = {own[1]} * {self.power(own[0], top)} + {other[1]} * {self.power(other[0], top)}",
                f"{own[0]} = {top}",
            ]
        if fold.way == "moments":
            self.functions.setdefault(_MOMENTS.replace("<T>", self.kind), "moments_share")
            (n, mean, squares), (n2, mean2, squares2) = own, other
            return [
                f"share = moments_share({n}, {n2})",
                f"away = {mean2} - {mean}",
                f"{squares} = {squares} + {squares2} + away * away * {n} * share",
                f"{mean} = {mean} + away * share",
                f"{n} = {n} + {n2}",
            ]
        return [f"{own[0]} = {self.joined(fold.way, own[0], other[0])}"]

    def across(self, step: Step, number: int) -> list[str]:
        """Return the statements that give all threads of a row the combination of their parts."""
        lines = self.butterfly(step, min(self.form.lanes, _WARP))
        parts = [part for fold in step.folds for part in self.parts(fold)]
        if self.form.lanes > _WARP and step.folds:
            warps = self.form.lanes // _WARP
            names = {part: f"shared_{number}_{part}" for part in parts}
            self.shared += [f"{name} = cuda.shared.array({warps}, {self.kind})" for name in names.values()]
            lines += ["if lane == uint32(0):", *[f"    {name}[warp] = {part}" for part, name in names.items()]]
            lines.append("cuda.syncthreads()")
            lines += [f"{part} = {name}[bit_and(lane, uint32({warps - 1}))]" for part, name in names.items()]
            lines += self.butterfly(step, warps)
        if self.form.is_long:  # the joins of running sums and moments depend on the order by a rounding
            lines += [f"{part} = {shuffled(self.kind, 'index', part, '0')}" for part in parts]
        return lines

    def butterfly(self, step: Step, lanes: int) -> list[str]:
        """Return the statements that combine the parts of neighbouring lanes, in each of them."""
        lines = []
        offset = lanes // 2
        while offset:
            for fold in step.folds:
                lines += [f"{p}_far = {shuffled(self.kind, 'xor', p, str(offset))}" for p in self.parts(fold)]
                lines += self.merged(fold, "_far")
            offset //= 2
        return lines

    def finished(self, step: Step) -> list[str]:
        """Return the statements for the numbers that follow from the folds of a sweep."""
        lines = [f"n_{fold.name} = m_{fold.name}_mean * n_count" for fold in step.folds if fold.way == "moments"] + [
            f"n_{fold.other} = m_{fold.name}_squares" for fold in step.folds if fold.way == "moments"
        ]
        origins = {fold.origin: fold for fold in step.folds if fold.way == "running_sum"}
        lines += [self._moved(fold) for name, fold in origins.items() if name == fold.name]
        for name, f in step.then:
            lines.append(f"n_{name} = {self.called(f)}")
            if name in origins:
                lines.append(self._moved(origins[name]))
            lines += [f"n_{name} = m_{g.name}_mean" for g in step.folds if g.way == "moments" and g.origin == name]
        return lines

    def _moved(self, fold: Fold) -> str:
        """Return the statement that makes a running sum one of distances from its origin: NaN for an infinite one."""
        exp = self.built("exp", ("a",), exponential(variable("a")))
        return f"n_{fold.other} = n_{fold.other} * {exp}(n_{fold.name} - n_{fold.origin})"

    # ---- the kernel

    def sweep(self, step: Step, number: int) -> list[str]:
        """Return the statements of one sweep."""
        begun = [line for fold in step.folds for line in self.begun(fold)]
        body = self.computed(step)
        for name, f in step.columns:
            body += self.mapped(f"t_{name}", f, range(0, self.count, self.size))
            body += [f"c_{name}_{i} = c_{name}_{i} + t_{name}_{i}" for i in range(self.count)]
        for fold in step.folds:
            body += [*self.local(fold), *self.merged(fold, "_here")]
        if self.form.is_long:
            chunk = self.form.lanes * self.form.width * self.form.slots
            body = [*self.places("walk"), *body, f"walk = wrap_add(walk, uint32({chunk}))"]
            body = ["walk = first", "while walk < columns:", *inner(body)]
        return [*begun, *body, *self.across(step, number), *self.finished(step)]

    def source(self) -> KernelSource:
        """Return the kernel."""
        lanes, width = self.form.lanes, self.form.width
        names, kinds = ["rows", "columns"], ["uint32", "uint32"]
        names += [f"n_{name}" for name in self.function.numbers]
        kinds += [self.kind] * len(self.function.numbers)
        for array in (*self.function.results, *self.function.inputs):
            names.append(f"p_{array.name}")
            is_sum = array.role == "column" and array.name in self.results  # in the dtype of the computation
            kinds.append(f"{self.kind if is_sum else TYPES[str(array.dtype)]}*")
            if array.role == "row" and array.name in self.arrays:
                names.append(f"s_{array.name}")
                kinds.append("uint64")
        lines = ["thread = uint32(cuda.threadIdx.x)", "row = uint32(cuda.blockIdx.x)"]
        if lanes <= _WARP:
            bits = lanes.bit_length() - 1
            lines += [
                f"first = wrap_multiply(bit_and(thread, uint32({lanes - 1})), uint32({width}))",
                f"row = wrap_add(wrap_multiply(row, uint32({_GROUPS >> bits})), shift_right(thread, uint32({bits})))",
                "valid = row < rows",
                "row = select(valid, row, uint32(0))",
            ]
        else:
            lines += [
                f"first = wrap_multiply(thread, uint32({width}))",
                "lane = bit_and(thread, uint32(31))",
                "warp = shift_right(thread, uint32(5))",
            ]
        lines.append(f"n_count = {self.kind}(columns)")
        if not self.form.is_long:
            lines += self.places("first")
        row = ["base = wrap_multiply(uint64(row), uint64(columns))", *self._of_rows()]
        for number, step in enumerate(self.steps):
            row += self.sweep(step, number)
        row += self._each_result()
        lines += self._of_all_rows(row)
        title = kernel_name(self.function.name, self.form.name, str(self.function.results[0].dtype))
        head = [text.replace("<NAME>", name) for text, name in self.functions.items()]
        body = "\n".join(inner([*self.shared, *lines]))
        text = "\n".join([*head, f"def {title}({', '.join(names)}):\n{body}\n"])
        return KernelSource(title, text, tuple(kinds), self.form.threads)

    def _of_rows(self) -> list[str]:
        """Return the statements for where each row begins and for the numbers that are given for each row."""
        lines = []
        for array in self.function.inputs:
            if array.role == "row":
                lines.append(f"b_{array.name} = wrap_multiply(uint64(row), s_{array.name})")
            elif array.role == "each":
                value = self.converted(f"p_{array.name}[row]", array.dtype, self.function.dtype)
                lines.append(f"n_{array.name} = {value}")
        return lines

    def _of_all_rows(self, row: list[str]) -> list[str]:
        """Return the statements for the rows of a thread: one, or every so many if values are summed over rows."""
        sums = [name for name, array in self.results.items() if array.role == "column"]
        if not sums:
            return row
        width = self.form.width
        lines = [f"c_{name}_{i} = {self.kind}(0)" for name in sums for i in range(self.count)]
        lines += ["while row < rows:", *inner(row)]
        lines += ["    row = wrap_add(row, uint32(cuda.gridDim.x))", "    cuda.syncthreads()"]
        lines.append("base = wrap_multiply(uint64(cuda.blockIdx.x), uint64(columns))")
        for name in sums:
            for k in range(self.form.slots):
                values = [f"c_{name}_{k * width + j}" for j in range(width)]
                lines += [f"if in_{k}:", *inner(self.written(name, k, values))]
        return lines

    def _each_result(self) -> list[str]:
        """Return the statements with which the first thread of a row stores its numbers."""
        each: list[RowArray] = [array for array in self.function.results if array.role == "each"]
        if not each:
            return []
        valid = " & valid" if self.form.lanes <= _WARP else ""
        values = [self.converted(f"n_{array.name}", self.function.dtype, array.dtype) for array in each]
        stores = [f"p_{array.name}[row] = {value}" for array, value in zip(each, values, strict=True)]
        return [f"if (first == uint32(0)){valid}:", *inner(stores)]
