"""The text of a kernel that is written as a Python function, with everything that it uses.

Note [Kernels are texts]
~~~~~~~~~~~~~~~~~~~~~~~~
A text can be hashed, so its machine code can be found on disk by another process or on another machine, and the text is
all that the code depends on. Of the global names that a function uses, the functions among them are made part of the
text, and so are numbers; names that every kernel has in scope (``cuda``, ``math``, ``np``, ``float32``, ...) are left
out, whatever module they were imported from. Anything else is an error at once: an array, for example, would be copied
into the kernel without being part of its name. Lines stay as they are, and :class:`Origin` tells where each was
written, so that errors name the file and line that an author knows. They are not part of the text: a function that
moves is not compiled again. Guarded by ``tests/backends/cuda/compiling/test_function_text.py``.
"""

from __future__ import annotations

import ast
import builtins
import inspect
import textwrap
from collections.abc import Callable
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final, NamedTuple

import numpy as np

__all__ = ["SCOPE", "Origin", "origins_of", "text_of"]

SCOPE: Final = frozenset([
    "boolean", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64",
    "complex64", "complex128", "cuda", "math", "np", "libdevice",
])  # fmt: skip
"""The names that a kernel of a user has in scope without defining them."""
_NO_SOURCE: Final = (
    "[{name}] the source of the kernel cannot be read ({reason}): write it in a file, or give the source as a string."
)
_NOT_TEXT: Final = (
    "[{name}] the kernel uses the global name {used!r}, {what}, which cannot be written into its source: kernels may "
    "use functions, numbers, cuda, math, np, libdevice and numba's types by their own names (from numba import cuda, "
    "float32). Pass other values as arguments."
)


class Origin(NamedTuple):
    """Where lines of a text were written: ``lines`` lines from ``line`` on, both counted from 1."""

    line: int
    lines: int
    file: str
    line_in_file: int


class _Part(NamedTuple):
    text: str
    file: str = ""
    line: int = 0  # in the file; 0 if the lines are not those of the file


def text_of(function: Callable[..., Any]) -> str:
    """Return the source of a function without decorators, after the functions and numbers that it uses.

    ``function`` is a Python function, or one that ``numba.cuda.jit`` has decorated. Raises ValueError if its source
    cannot be read or if it uses something that is not part of the source.
    """
    return "\n\n".join([part.text for part in _parts(function)]) + "\n"


def origins_of(function: Callable[..., Any]) -> list[Origin]:
    """Return where the lines of ``text_of(function)`` were written, as far as they are lines of a file."""
    found: list[Origin] = []
    line = 1
    for part in _parts(function):
        count = part.text.count("\n") + 1
        if part.line:
            found.append(Origin(line, count, part.file, part.line))
        line += count + 1
    return found


def _parts(function: Callable[..., Any]) -> list[_Part]:
    found = _plain(function)
    if found is None:
        raise ValueError(_NO_SOURCE.format(name=getattr(function, "__name__", repr(function)), reason="not a function"))
    parts: dict[str, _Part] = {}
    _add(found, parts, found.__name__)
    return list(parts.values())


def _plain(value: Any) -> FunctionType | None:
    """Return the Python function that a value is or, if Numba has decorated it, was."""
    value = getattr(value, "py_func", value)
    return value if isinstance(value, FunctionType) else None


def _add(function: FunctionType, parts: dict[str, _Part], kernel: str) -> None:
    """Add the source of a function to ``parts``, which has names and texts in order, after what it uses."""
    name = function.__name__
    source = _source(function, kernel)
    parts[name] = source  # it may use itself
    for used in _names(function.__code__):
        if used in SCOPE or used in parts:
            continue
        value, known = _value(function, used)
        if not known:
            if not hasattr(builtins, used):
                raise ValueError(_NOT_TEXT.format(name=kernel, used=used, what="which is not defined"))
            continue
        helper = _plain(value)
        if helper is not None and helper.__name__ == used:
            _add(helper, parts, kernel)
        elif isinstance(value, (bool, int, float, np.bool_, np.number)):
            parts[used] = _Part(f"{used} = {_number(value)}")
        else:
            what = f"the module {value.__name__}" if isinstance(value, ModuleType) else f"a {type(value).__name__}"
            raise ValueError(_NOT_TEXT.format(name=kernel, used=used, what=what))
    del parts[name]
    parts[name] = source


def _number(value: Any) -> str:
    if isinstance(value, (bool, np.bool_)):
        return repr(bool(value))
    number = value.item() if isinstance(value, np.number) else value
    text = repr(number)
    if isinstance(number, float) and (number != number or number in (float("inf"), float("-inf"))):
        text = f"float({text!r})"
    return f"np.{value.dtype}({text})" if isinstance(value, np.number) else text


def _source(function: FunctionType, kernel: str) -> _Part:
    """Return the source of a function without decorators and annotations."""
    try:
        given = textwrap.dedent(inspect.getsource(function))
        tree = ast.parse(given)
    except (OSError, SyntaxError, TypeError) as error:
        raise ValueError(_NO_SOURCE.format(name=kernel, reason=error)) from None
    found = tree.body[0]
    if not isinstance(found, ast.FunctionDef):
        raise ValueError(_NO_SOURCE.format(name=kernel, reason="it is not a function that def defines"))
    kept = _without_annotations(given, found)
    found.decorator_list = []
    found.returns = None
    for argument in _arguments(found):
        argument.annotation = None
    if kept is not None and _dump(kept) == ast.dump(ast.Module([found], [])):
        first = inspect.getsourcelines(function)[1] + found.lineno - 1
        return _Part(kept, inspect.getsourcefile(function) or "", first)
    return _Part(ast.unparse(found))


def _dump(text: str) -> str:
    """Return the syntax of a text, empty if it has none."""
    try:
        return ast.dump(ast.parse(text))
    except SyntaxError:  # annotations in parentheses
        return ""


def _arguments(found: ast.FunctionDef) -> list[ast.arg]:
    return [*found.args.posonlyargs, *found.args.args, *found.args.kwonlyargs]


def _without_annotations(text: str, found: ast.FunctionDef) -> str | None:
    """Return the lines of a function from its ``def`` on, without annotations; None where one has several lines."""
    lines = text.encode().splitlines()  # the columns of a tree count bytes
    if found.returns is not None:
        line = lines[found.returns.lineno - 1]
        arrow = line.rfind(b"->", 0, found.returns.col_offset)
        if arrow < 0 or found.returns.end_lineno != found.returns.lineno:
            return None
        lines[found.returns.lineno - 1] = line[:arrow].rstrip() + line[found.returns.end_col_offset :]
    for argument in reversed(_arguments(found)):
        if argument.annotation is not None:
            if argument.end_lineno != argument.lineno:
                return None
            line = lines[argument.lineno - 1]
            end = argument.col_offset + len(argument.arg.encode())
            lines[argument.lineno - 1] = line[:end] + line[argument.end_col_offset :]
    return b"\n".join(lines[found.lineno - 1 : found.end_lineno]).decode()


def _names(code: CodeType) -> list[str]:
    """Return the global and enclosing names that code uses, in a fixed order; attributes may be among them."""
    import dis

    nested = [name for constant in code.co_consts if isinstance(constant, CodeType) for name in _names(constant)]
    loaded = [instruction.argval for instruction in dis.get_instructions(code) if "GLOBAL" in instruction.opname]
    return list(dict.fromkeys([*code.co_freevars, *loaded, *nested]))


def _value(function: FunctionType, name: str) -> tuple[Any, bool]:
    """Return the value of a global or enclosing name, and whether there is one."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or ()))
    if name in cells:
        return cells[name].cell_contents, True
    return function.__globals__.get(name), name in function.__globals__
