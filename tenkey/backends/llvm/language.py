"""Translating Python functions to LLVM's language: the functions that are decorated with :func:`loop`.

Note [A small language]
~~~~~~~~~~~~~~~~~~~~~~~
Numba takes ten times as long for the same functions, after an import of 230 ms: a first call cannot afford it.
The subset that loops over arrays need is small:

- A parameter's annotation is its type; keyword-only parameters are *static*: known during the translation, such as
  types, numbers of lanes and Python functions. An expression of static values is computed at once, and ``if`` with a
  static condition chooses at once.
- A name that is assigned several times is a variable, which keeps the type of its first value. ``name: T = 0`` states
  the type. A list of values is a list of variables.
- ``for i in range(...)`` and ``while`` are loops; ``for k in unroll(...)`` repeats its body during the translation.
- A ``@loop`` function that calls another one calls it in the compiled code; with ``inline=True`` its body is inserted,
  so that it may take and return lists, tuples and Python functions. Any other Python function is run at once: it gets
  values, and its operators write code.

Guarded by ``tests/backends/test_llvm_language.py``.
"""

from __future__ import annotations

import ast
import linecache
import textwrap
from collections.abc import Callable, Sequence
from typing import Any, Final

from ..._util.cached_attribute import cached_property
from .expression_nodes import BINARY, Expressions, LoopError, Static, Variable, static
from .value_types import Type, i8, i64, pointer, void
from .values import Body, Function, Module, Value, as_value, body, convert, truth, writing

__all__ = ["LoopError", "Template", "function_pointer", "loop", "static", "static_key"]


class Template:
    """A Python function that can be translated, once for each choice of its static parameters."""

    def __init__(
        self, function: Callable[..., Any], inline: bool | None, contract: bool, brief: bool, cold: bool
    ) -> None:
        self.function = function
        self.brief = brief
        self.cold = cold
        self.inline = inline
        self.contract = contract
        self.__name__ = function.__name__
        self.__doc__ = function.__doc__
        self.__module__ = function.__module__

    def __repr__(self) -> str:
        return f"<loop {self.__module__}.{self.__name__}>"

    @cached_property
    def parts(self) -> tuple[ast.FunctionDef, dict[str, int], dict[str, Any]]:
        """Return the syntax tree, how often each name is assigned, and the free variables of the function."""
        tree = ast.parse(_source(self.function)).body[0]
        assert isinstance(tree, ast.FunctionDef)
        cells = self.function.__closure__ or ()
        free = dict(zip(self.function.__code__.co_freevars, [cell.cell_contents for cell in cells], strict=True))
        return tree, _assignments(tree), free

    def __call__(self, *arguments: Any, **statics: Any) -> Any:
        """Write a call of the function, or its body, into the code that is being translated."""
        into = body()
        if self.inline:
            return _Translation(self, into, statics).inserted(arguments)
        name, result, parameters = instance(self, into.module, statics)
        if len(arguments) != len(parameters):
            raise TypeError(f"{self.__name__} takes {len(parameters)} arguments, got {len(arguments)}.")
        texts = []
        for argument, type_ in zip(arguments, parameters, strict=True):
            value = as_value(argument, type_)
            if value.type != type_ and not value.type.kind == "p" == type_.kind:
                value = convert(value, type_) if type_.is_vector and value.type == type_.scalar else value
                if value.type != type_:
                    raise TypeError(f"{self.__name__} takes a {type_}, got a {value.type}: convert it.")
            texts.append(value.text)
        text = f"call {result.ir} @{name}({', '.join(texts)})"
        if result == void:
            into.write(text)
            return None
        return into.value(result, text)


def loop(
    function: Callable[..., Any] | None = None, *, inline: bool | None = None, contract: bool = True,
    brief: bool = False, cold: bool = False,
) -> Any:  # fmt: skip
    """Declare that a function is written in the language of loops: Note [A small language].

    ``inline=True`` inserts its body where it is called, ``False`` keeps LLVM from doing so. ``contract=False`` rounds
    each product and each sum on its own, as IEEE 754 says; inserted functions follow the one that calls them. ``brief``
    lets LLVM only clean up the kernel whose entry point the function is: for loops that are written as they are to run,
    the code is as fast, and optimising takes a tenth of the time. ``cold`` lets LLVM emit a function in half the time,
    with instructions that are not the best: for what is done once for each call and not for each element. It is not
    inlined.
    """

    def decorate(function: Callable[..., Any]) -> Template:
        return Template(function, inline=False if cold else inline, contract=contract, brief=brief, cold=cold)

    return decorate if function is None else decorate(function)


def function_pointer(template: Template, **statics: Any) -> Value:
    """Return the address of a function of the module, to be called by address."""
    name, _, _ = instance(template, body().module, statics)
    return Value(pointer(i8), f"@{name}")


def static_key(template: Template, statics: dict[str, Any]) -> tuple[Any, ...]:
    """Return what tells the choices of statics apart, in the order given: 1, 1.0 and True are equal, but not one."""
    return (template, *statics.items(), *map(_kind, statics.values()))


def _kind(value: Any) -> Any:
    kind = value.__class__
    if kind is tuple or kind is list:
        return tuple(map(_kind, value))
    return repr(value) if kind is float else kind  # 0.0 and -0.0


def instance(
    template: Template, module: Module, statics: dict[str, Any], name: str | None = None
) -> tuple[str, Type, list[Type]]:
    """Translate a function for these statics, unless the module has it; return its name, result and parameters."""
    key = static_key(template, dict(sorted(statics.items())))
    found = module.functions.get(key)
    if found is None:
        exported = name is not None
        name = name or f"{template.__name__}.{len(module.functions)}"
        translation = _Translation(template, Body(module, template.contract), statics)
        found = module.functions[key] = (name, translation.result, translation.parameter_types())
        module.written.append(translation.function(name, exported))
    return found


_ATTRIBUTES: Final = ' nounwind "prefer-vector-width"="512" "min-legal-vector-width"="512"'


class _Translation(Expressions):
    """One function being translated for one choice of statics: its statements."""

    def __init__(self, template: Template, body: Body, statics: dict[str, Any]) -> None:
        self.template = template
        self.tree, assigned, free = template.parts
        super().__init__(template.function, free, body, assigned)
        arguments = self.tree.args
        for parameter, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
            if parameter.arg in statics:
                self.names[parameter.arg] = statics[parameter.arg]
            elif default is not None:
                self.names[parameter.arg] = self.value(default)
            else:
                raise LoopError(f"{self.where(self.tree)}: {template.__name__} needs the static {parameter.arg}=...")
        unknown = set(statics) - set(self.names)
        if unknown:
            raise LoopError(f"{self.where(self.tree)}: {template.__name__} has no static {', '.join(sorted(unknown))}.")
        self.parameters = [*arguments.posonlyargs, *arguments.args]
        self.targets: list[tuple[str, str] | None] = []  # where continue and break go, for each loop; None: nowhere
        self.inlined = False

    @cached_property
    def result(self) -> Type:
        """Return the type of the result."""
        return void if self.tree.returns is None else self.type_of(self.tree.returns)

    def parameter_types(self) -> list[Type]:
        """Return the types of the parameters."""
        return [self.type_of(parameter.annotation) for parameter in self.parameters]

    def function(self, name: str, exported: bool) -> Function:
        """Return the whole function."""
        body = self.body
        types = self.parameter_types()
        with writing(body):
            for k, (parameter, type_) in enumerate(zip(self.parameters, types, strict=True)):
                self.bind(parameter.arg, Value(type_, f"%p{k}"))
            self.block(self.tree.body)
        if body.open:
            if self.result != void:
                raise LoopError(
                    f"{self.where(self.tree)}: {name} ends without return, but its result is {self.result}."
                )
            body.write("ret void")
        head = ", ".join(f"{type_.ir} %p{k}" for k, type_ in enumerate(types))
        extra = " noinline" if self.template.inline is False else ""
        head = f"{self.result.ir} @{name}({head}){extra}{_ATTRIBUTES}"
        code = "\n".join(["entry:", *body.variables, *body.lines, ""])
        return Function(name, head, code, self.template.cold, exported)

    def inserted(self, arguments: Sequence[Any]) -> Any:
        """Write the body into the calling function, and return what it returns."""
        self.inlined = True
        if len(arguments) != len(self.parameters):
            raise TypeError(f"{self.template.__name__} takes {len(self.parameters)} arguments, got {len(arguments)}.")
        for parameter, argument in zip(self.parameters, arguments, strict=True):
            if parameter.annotation is not None and not isinstance(argument, Value):
                argument = as_value(argument, self.type_of(parameter.annotation))
            self.bind(parameter.arg, argument)
        *statements, last = self.tree.body
        if not isinstance(last, ast.Return):
            statements.append(last)
        self.block(statements)
        return self.value(last.value) if isinstance(last, ast.Return) and last.value is not None else None

    def type_of(self, annotation: ast.expr | None) -> Type:
        """Return the type that an annotation names."""
        if annotation is None:
            self.fail(self.tree, "every parameter needs a type as its annotation.")
        if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
            annotation = ast.copy_location(ast.parse(annotation.value, mode="eval").body, annotation)
        found = self.value(annotation)
        if not isinstance(found, Type):
            self.fail(self.tree, f"the annotation {ast.unparse(annotation)} is not a type.")
        return found

    # ---- statements

    def block(self, statements: Sequence[ast.stmt]) -> None:
        """Translate statements up to the first after which nothing is reached."""
        for statement in statements:
            if not self.body.open:
                return
            method = getattr(self, f"do_{type(statement).__name__}", None)
            if method is None:
                self.fail(statement, f"{type(statement).__name__} is not part of the language of loops.")
            try:
                method(statement)
            except LoopError:
                raise
            except Exception as error:
                self.fail(statement, f"{type(error).__name__}: {error}", error)

    def do_Pass(self, node: ast.Pass) -> None:
        pass

    def do_Assert(self, node: ast.Assert) -> None:
        if not self.value(node.test):
            self.fail(node, "the static assertion does not hold.")

    def do_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):
            self.value(node.value)

    def do_Assign(self, node: ast.Assign) -> None:
        value = self.value(node.value)
        for target in node.targets:
            self.assign(target, value)

    def do_AnnAssign(self, node: ast.AnnAssign) -> None:
        if not isinstance(node.target, ast.Name) or node.value is None:
            raise TypeError("a type is stated for a name, together with its first value.")
        self.bind(node.target.id, self.value(node.value), self.type_of(node.annotation))

    def do_AugAssign(self, node: ast.AugAssign) -> None:
        before = self.value(node.target)  # a target is an expression as well, except for its context
        after = BINARY[type(node.op)](before, self.value(node.value))
        self.assign(node.target, after)

    def do_Return(self, node: ast.Return) -> None:
        if self.inlined:
            self.fail(node, "an inlined function returns once, in its last statement.")
        if node.value is None or self.result == void:
            if node.value is not None:
                self.value(node.value)
            self.body.write("ret void")
        else:
            value = as_value(self.value(node.value), self.result)
            if value.type != self.result and not value.type.kind == "p" == self.result.kind:
                raise TypeError(f"the result is a {self.result}, got a {value.type}: convert it.")
            self.body.write(f"ret {value.text}")
        self.body.open = False

    def do_If(self, node: ast.If) -> None:
        condition = self.value(node.test)
        if not isinstance(condition, Value):
            self.block(node.body if condition else node.orelse)
            return
        body = self.body
        yes, no, after = body.name("then"), body.name("else"), body.name("after")
        body.branch(truth(condition), yes, no if node.orelse else after)
        body.label(yes)
        with body.branching():
            self.block(node.body)
        ends = not body.open
        if not ends:
            body.jump(after)
        if node.orelse:
            body.label(no)
            with body.branching():
                self.block(node.orelse)
            if body.open:
                ends = False
                body.jump(after)
            if ends:
                return  # neither side goes on
        body.label(after)

    def do_While(self, node: ast.While) -> None:
        self.refuse_else(node)
        body = self.body
        head, inside, after = body.name("while"), body.name("do"), body.name("done")
        body.label(head)
        condition = self.value(node.test)
        if isinstance(condition, Value):
            body.branch(truth(condition), inside, after)
        else:
            body.jump(inside if condition else after)
        body.label(inside)
        self.targets.append((head, after))
        with body.branching():
            self.block(node.body)
        self.targets.pop()
        if body.open:
            body.jump(head)
        body.label(after)

    def refuse_else(self, node: ast.For | ast.While) -> None:
        if node.orelse:
            raise TypeError("a loop has no else: set a variable before break, and ask for it after the loop.")

    def do_For(self, node: ast.For) -> None:
        self.refuse_else(node)
        call = node.iter
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "range":
            self.counted(node, [self.value(argument) for argument in call.args])
            return
        items = self.value(node.iter)
        if isinstance(items, Value):
            raise TypeError("a loop runs over range(...) or unroll(...).")
        self.targets.append(None)
        for item in items:
            self.assign(node.target, Static(item))
            self.block(node.body)
        self.targets.pop()

    def counted(self, node: ast.For, bounds: list[Any]) -> None:
        """Translate ``for i in range(...)``."""
        start, stop, step = (0, *bounds, 1) if len(bounds) == 1 else (*bounds, 1)[:3]
        if isinstance(step, Value) or not step:
            raise TypeError("the step of a range is a static number other than 0.")
        start, stop = as_value(start, i64), as_value(stop, i64)
        if not start.type == stop.type == i64:
            raise TypeError(f"the bounds of a range are i64, got {start.type} and {stop.type}: convert them.")
        body = self.body
        counter = Variable(body, i64)
        counter.set(body, start)
        head, inside, latch, after = body.name("for"), body.name("do"), body.name("next"), body.name("done")
        body.label(head)
        now = counter.get(body)
        body.branch(now < stop if step > 0 else now > stop, inside, after)
        body.label(inside)
        if not isinstance(node.target, ast.Name):
            raise TypeError("a range has one name as its target.")
        if self.assigned.get(node.target.id):  # assigned elsewhere too
            self.bind(node.target.id, now, None if isinstance(self.names.get(node.target.id), Variable) else i64)
        else:
            self.names[node.target.id] = now
        self.targets.append((latch, after))
        with body.branching():
            self.block(node.body)
        self.targets.pop()
        body.label(latch)
        counter.set(body, body.value(i64, f"add nsw i64 {counter.get(body).name}, {step}"))
        body.jump(head)
        body.label(after)

    def do_Break(self, node: ast.Break) -> None:
        self.leave(1)

    def do_Continue(self, node: ast.Continue) -> None:
        self.leave(0)

    def leave(self, which: int) -> None:
        targets = self.targets[-1] if self.targets else None
        if targets is None:
            raise TypeError("break and continue belong into range and while loops of the same function.")
        self.body.jump(targets[which])


def _source(function: Callable[..., Any]) -> str:
    """Return the source text of a function; OSError if there is none.

    ``inspect.getsource`` takes 1 ms. Here a function ends with its indentation: no line of a string begins before it.
    """
    code = function.__code__
    lines = linecache.getlines(code.co_filename, function.__globals__)[code.co_firstlineno - 1 :]
    if not lines:
        raise OSError(f"the source of {function.__qualname__} is not available")
    margin = len(lines[0]) - len(lines[0].lstrip())
    begun = False
    for count, line in enumerate(lines):
        text = line.lstrip()
        if begun and text and len(line) - len(text) <= margin and text[0] not in ")#":
            del lines[count:]
            break
        begun = begun or text.startswith("def ")
    return textwrap.dedent("".join(lines))


def _assignments(tree: ast.FunctionDef) -> dict[str, int]:
    """Count how often each name is assigned, a parameter's value included and targets of loops left out."""
    counts = {argument.arg: 1 for argument in (*tree.args.posonlyargs, *tree.args.args)}
    statements: list[Any] = [*tree.body]
    for statement in statements:  # which grows
        match statement:
            case ast.Assign():
                targets = [*statement.targets]
            case ast.AnnAssign():
                targets = [statement.target]
            case ast.AugAssign():
                targets = [statement.target, statement.target]  # that it has a value before is one more
            case _:
                statements += [*getattr(statement, "body", ()), *getattr(statement, "orelse", ())]
                continue
        for target in targets:  # which grows, too
            if isinstance(target, (ast.Tuple, ast.List)):
                targets += target.elts
            elif isinstance(target, ast.Starred):
                targets.append(target.value)
            elif isinstance(target, ast.Name):
                counts[target.id] = counts.get(target.id, 0) + 1
    return counts
