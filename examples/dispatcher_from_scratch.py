"""A dispatcher from scratch: the design of tenkey in one sitting. Run it: `python examples/dispatcher_from_scratch.py`.

You write `x * y`. Which code multiplies? The arrays may be on one device or another; a gradient may be wanted or not;
the call may be observed. If `mul` asked all these questions itself, so would each of a thousand operators, and no other
package could add a question. A *dispatcher* transposes this table: every concern is a *key*, a call collects its keys,
and the kernel of the highest key runs first, does its part, and passes the call on. This file builds one.
"""
# ruff: noqa: D101, D102, D103 - the essay above each part is its documentation. Each part is formatted by hand, as a page:
# fmt: off

from __future__ import annotations

import inspect
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import Context, ContextVar
from dataclasses import dataclass
from typing import Any

import numpy as np

KeySet = int
Kernel = Callable[..., "Tensor"]  # kernel(keys, *args); a fallback gets the operator as its first argument
Slot = tuple[str, Kernel]  # the rule that filled it, and the kernel
Facets = dict[str, Callable[..., Any]]

def same(what: str, got: Any, expected: Any) -> None:
    if not isinstance(expected, str):
        np.testing.assert_allclose(got, expected, rtol=1e-6, err_msg=what)
        got = expected = np.round(got, 4).tolist()
    assert got == expected, f"{what}: got {got}, expected {expected}"
    print(f"{what}: {got}")

def slope(f: Callable[[Any], float], x: Any, h: float = 1e-6) -> list[float]:  # central differences: independent
    return [(f(x + move) - f(x - move)) / (2 * h) for move in h * np.eye(x.size)]

# 1. Keys have an order, and a set of keys is an integer --------------------------------------------------------------
# A key is one bit; its position is its rank. Every question of dispatch is then a machine instruction: union is `|`,
# removal is `& ~`, the highest key is `bit_length`, the keys below are `& key - 1`. Gaps are left for future keys.
NONE, CPU, AUTOGRAD = 0, 1 << 0, 1 << 16  # gradients are recorded first, numbers computed last
NAMES = {CPU: "CPU", AUTOGRAD: "Autograd"}

def highest(keys: KeySet) -> KeySet:
    return 1 << keys.bit_length() - 1

def show(keys: KeySet) -> str:
    return "|".join(NAMES[key] for key in sorted(NAMES, reverse=True) if keys & key) or "none"

both = CPU | (CPU | AUTOGRAD)
same("1. union", f"{show(both)}, highest {show(highest(both))}", "Autograd|CPU, highest Autograd")

# 2. A tensor is data that carries its keys ---------------------------------------------------------------------------
# Its methods do not know how to add: every operator is a dispatched call. The node is the tensor's place in the graph
# that part 6 records; a tensor that carries the Autograd key and has no history yet is a leaf.
class Tensor:
    def __init__(self, data: Any, keys: KeySet = CPU, node: Node | None = None) -> None:
        self.data, self.keys = np.asarray(data, dtype=np.float64), keys
        self.node = node or (Node("leaf", self.data.shape) if keys & AUTOGRAD else None)

    def __add__(self, other: Tensor | float) -> Tensor:
        return add(self, other)

    def __mul__(self, other: Tensor | float) -> Tensor:
        return mul(self, other)

@dataclass(eq=False)
class Node:
    name: str
    shape: tuple[int, ...]
    edges: Sequence[Node | None] = ()
    vjp: Callable[[Tensor], Sequence[Tensor]] = lambda g: ()

# 3. The caller may include and exclude keys --------------------------------------------------------------------------
# `no_grad` is not a flag that kernels read: it removes Autograd from the set, so that its code is never reached. Guards
# are in a ContextVar: each thread and each asyncio task has its own, and leaving the block restores the old state.
LOCAL: ContextVar[tuple[KeySet, KeySet]] = ContextVar("LOCAL", default=(NONE, NONE))

@contextmanager
def guard(include: KeySet = NONE, exclude: KeySet = NONE) -> Iterator[None]:
    token = LOCAL.set((LOCAL.get()[0] | include, LOCAL.get()[1] | exclude))
    try:
        yield
    finally:
        LOCAL.reset(token)

def effective_keys(*args: object) -> KeySet:
    keys, excluded = LOCAL.get()
    for arg in args:
        keys |= arg.keys if isinstance(arg, Tensor) else NONE
    return keys & ~excluded  # exclusion wins

with guard(exclude=AUTOGRAD):
    same("3. inside the guard", show(effective_keys(t := Tensor(1.0, both), 2.0)), "CPU")
    same("   meanwhile in another context", show(Context().run(effective_keys, t)), "Autograd|CPU")

# 4. An operator is a name and a table --------------------------------------------------------------------------------
# The table has one slot per key, which is filled when first needed and cleared when anything is registered. Numbered
# rules, in one place, decide what fills a slot, and the slot keeps its rule for inspection. A *composite* is written
# with other operators, so it serves Autograd and all keys below. A *fallback* serves one key for all operators. Every
# kernel gets the keyset and may `redispatch` with the keys below its own: nothing is included or excluded again.
COMPOSITE = -1  # an alias that no tensor carries
OPERATORS: list[Operator] = []

class Operator:
    def __init__(self, name: str) -> None:
        self.name, self.kernels, self.table = name, dict[KeySet, Kernel](), dict[KeySet, Slot]()
        OPERATORS.append(self)

    def register(self, key: KeySet, kernel: Kernel) -> None:
        self.kernels[key] = kernel
        for op in OPERATORS:
            op.table.clear()

    def __call__(self, *args: Any) -> Tensor:
        return self.redispatch(effective_keys(*args), *args)

    def redispatch(self, keys: KeySet, *args: Any) -> Tensor:
        key = highest(keys)
        _, kernel = self.table.get(key) or self.table.setdefault(key, self.resolve(key))
        return kernel(keys, *args)

    def resolve(self, key: KeySet) -> Slot:
        if key in self.kernels:
            return ("1 direct kernel", self.kernels[key])
        if COMPOSITE in self.kernels and key <= AUTOGRAD:
            return ("2 composite", self.kernels[COMPOSITE])
        if key in FALLBACK.kernels:
            return ("3 fallback", lambda keys, *args: FALLBACK.kernels[key](self, keys, *args))
        return ("4 missing", lambda keys, *args: self.missing(key))

    def missing(self, key: KeySet) -> Tensor:
        have = ", ".join(map(show, self.kernels)) or "no key"
        raise NotImplementedError(f"[{self.name}] has a kernel for {have}, but none for {show(key)}: register one.")

FALLBACK, double, quadruple = Operator("_"), Operator("double"), Operator("quadruple")
double.register(CPU, lambda keys, x: Tensor(x.data * 2))
quadruple.register(COMPOSITE, lambda keys, x: double(double(x)))
same("4. quadruple(2.5)", quadruple(Tensor(2.5)).data, 10.0)
same("   by rules", f"{quadruple.table[CPU][0]}, {double.table[CPU][0]}", "2 composite, 1 direct kernel")
quadruple.register(CPU, lambda keys, x: Tensor(x.data * 4))
assert not quadruple.table  # after registration of a better kernel, the slot is empty and will be resolved again

# 5. Declarations are inert; installers read them ---------------------------------------------------------------------
# A block states everything about an operator, as a collection of *facets*, and does nothing. Each layer has an
# installer, which reads the facets that it knows and registers kernels. Every installer sees every block, whichever
# came first: the order of files does not matter, and layers can be added. `scalar` describes one element, `array` whole
# arrays, `composite` tensors; `vjp` is the gradient, which the CPU ignores.
BLOCKS: list[tuple[Operator, Facets]] = []
INSTALLERS: list[Callable[[Operator, Facets], None]] = []

def declare(name: str, **facets: Callable[..., Any]) -> Operator:
    BLOCKS.append((op := Operator(name), facets))
    for install in INSTALLERS:
        install(op, facets)
    return op

def installer(install: Callable[[Operator, Facets], None]) -> None:
    INSTALLERS.append(install)
    for op, facets in BLOCKS:
        install(op, facets)

pointwise = declare  # with a `scalar`; in tenkey each kind of operator has such a function, with its own signature
add = pointwise("add", scalar=lambda x1, x2: x1 + x2, vjp=lambda g: (g, g))
mul = pointwise("mul", scalar=lambda x1, x2: x1 * x2, vjp=lambda g, x1, x2: (g * x2, g * x1))
exp = pointwise("exp", scalar=math.exp, vjp=lambda g, out: (g * out,))
total = declare("total", array=np.sum, vjp=lambda g, a: (expand(g, a.data.shape),))
expand: Operator = declare("expand", array=np.broadcast_to, vjp=lambda g: (total(g),))
dot = declare("dot", composite=lambda x1, x2: total(x1 * x2))
try:
    mul(Tensor(2.0), 3.0)
except NotImplementedError as error:
    print("5. before any installer:", error)

def on_arrays(key: KeySet, function: Callable[..., Any]) -> Kernel:
    return lambda keys, *args: Tensor(function(*[arg.data if isinstance(arg, Tensor) else arg for arg in args]), key)

@installer
def install_cpu(op: Operator, facets: Facets) -> None:
    if "scalar" in facets:  # here a loop in Python; tenkey compiles the same expression
        op.register(CPU, on_arrays(CPU, np.vectorize(facets["scalar"], otypes=[float])))
    elif "array" in facets:
        op.register(CPU, on_arrays(CPU, facets["array"]))
    elif "composite" in facets:
        op.register(COMPOSITE, lambda keys, *args: facets["composite"](*args))

b = np.array([2.0, 3.0, 4.0])
same("   dot(b, b * b + 1)", dot(Tensor(b), Tensor(b) * Tensor(b) + 1.0).data, b @ (b * b + 1))

# 6. Autograd is a key that records -----------------------------------------------------------------------------------
# Its kernel computes the result by redispatching below itself, and gives it a node with edges to the arguments' nodes.
# It saves what the formula names: `exp` names `out`, so its input is not saved. Formulas are written with operators, so
# they run on every backend and can be differentiated too.
@installer
def install_autograd(op: Operator, facets: Facets) -> None:
    if not (vjp := facets.get("vjp")):
        return
    wanted = inspect.signature(vjp).parameters
    params = inspect.signature(facets.get("scalar") or facets["array"]).parameters

    def record(keys: KeySet, *args: Any) -> Tensor:
        with guard(exclude=AUTOGRAD):  # the calls of a kernel are not recorded a second time
            out = op.redispatch(keys & AUTOGRAD - 1, *args)
        out.keys |= AUTOGRAD
        out.node = Node(op.name, out.data.shape, [arg.node if isinstance(arg, Tensor) else None for arg in args])
        saved = {name: arg for name, arg in (*zip(params, args, strict=False), ("out", out)) if name in wanted}
        out.node.vjp = lambda g: vjp(g, **saved)  # may close a cycle through `out`; tenkey keeps it without its node
        return out
    op.register(AUTOGRAD, record)

y: Any = exp((x := Tensor(b, both)) * 0.5).node
same("6. graph", f"{y.name} <- {y.edges[0].name} <- {y.edges[0].edges[0].name}", "exp <- mul <- leaf")

# 7. The engine: dependency counts and a ready queue ------------------------------------------------------------------
# A node may run when all its consumers have sent their shares. Count the consumers of each node; a node with none left
# is ready (of several, tenkey takes the latest). There is no recursion: a deep graph does not overflow the stack.
def grad(output: Tensor, x: Tensor, create_graph: bool = False) -> Tensor:
    if not output.node or not x.node or output.data.shape:
        raise ValueError(f"[grad] needs a recorded scalar and a recorded tensor, got {output} and {x}.")
    waiting, stack = Counter[Node](), [output.node]
    while stack:
        edges = [edge for edge in stack.pop().edges if edge]
        stack += set(edges) - waiting.keys()
        waiting.update(edges)
    sums, ready = {output.node: Tensor(1.0, output.keys & ~AUTOGRAD)}, [output.node]
    with guard(exclude=NONE if create_graph else AUTOGRAD):
        while ready:
            node = ready.pop()
            for edge, share in zip(node.edges, node.vjp(sums[node]), strict=False):
                if edge:
                    share = share if share.data.shape == edge.shape else total(share)  # a scalar was broadcast
                    sums[edge] = sums[edge] + share if edge in sums else share
                    waiting[edge] -= 1
                    if not waiting[edge]:
                        ready.append(edge)
    return sums[x.node]

same("7. gradient", grad(dot(x * total(x), exp(x)), x).data, slope(lambda b: b.sum() * b @ np.exp(b), b))
same("   of second order", grad(total(grad(dot(x, exp(x)), x, create_graph=True)), x).data, (2 + b) * np.exp(b))
same("   through 2000 nodes", grad(total(sum([x] * 2000, x)), x).data, [2001.0] * 3)

# 8. From outside: an operator is one block ---------------------------------------------------------------------------
# Nothing above changes. The installers treat a new block like the old ones: it has kernels, and gradients of every
# order. `cumsum` is not pointwise: it has an array function and its own formula.
tanh = pointwise("tanh", scalar=math.tanh, vjp=lambda g, out: (g + g * out * out * -1.0,))
cumsum: Operator = declare("cumsum", array=np.cumsum, vjp=lambda g: (total(g) + cumsum(g) * -1.0 + g,))
loss = declare("loss", composite=lambda x: dot(cumsum(tanh(x)), x))
want = slope(lambda b: np.cumsum(np.tanh(b)) @ b, b)
same("8. gradient of dot(cumsum(tanh x), x)", grad(loss(x), x).data, want)

# 9. From outside: a second backend -----------------------------------------------------------------------------------
# It stores the last element first, in host memory. A pointwise operator does not depend on the order of elements: one
# installer derives all of them from the facet that the CPU reads. Everything else falls back: copy, run, copy back.
# Composites and gradients need nothing: they consist of operators. (tenkey rejects mixed devices; here nothing does.)
NAMES[REVERSED := 1 << 1] = "Reversed"

@installer
def install_reversed(op: Operator, facets: Facets) -> None:
    if "scalar" in facets:
        op.register(REVERSED, on_arrays(REVERSED, np.vectorize(facets["scalar"], otypes=[float])))

def run_on_cpu(op: Operator, keys: KeySet, *args: Any) -> Tensor:
    host = [Tensor(np.flip(arg.data)) if isinstance(arg, Tensor) else arg for arg in args]
    return Tensor(np.flip(op.redispatch(CPU, *host).data), REVERSED)

FALLBACK.register(REVERSED, run_on_cpu)
far = Tensor(b[::-1], REVERSED | AUTOGRAD)
same("9. the same gradient, in its memory", grad(loss(far), far).data, want[::-1])
same("   tanh, dot, cumsum by rules", " ".join(op.resolve(REVERSED)[0][0] for op in (tanh, dot, cumsum)), "1 2 3")

# 10. From outside: watch every call ----------------------------------------------------------------------------------
# No tensor carries this key: a guard includes it. One fallback serves all operators, including future ones. It passes
# the call on to the keys below but excludes nothing, so the calls that a composite makes are observed too.
NAMES[LOG := 1 << 32] = "Log"
calls: list[str] = []

def log_call(op: Operator, keys: KeySet, *args: Any) -> Tensor:
    calls.append(op.name)
    return op.redispatch(keys & LOG - 1, *args)

FALLBACK.register(LOG, log_call)
with guard(include=LOG):
    assert loss(x).node  # recorded as before
same("10. a trace", " ".join(calls), "loss tanh cumsum dot mul total")

# 11. Explain ---------------------------------------------------------------------------------------------------------
# Every decision is data, so the dispatcher can say what it would do, and why, without doing it.
def explain(op: Operator, *args: Any) -> str:
    (included, excluded), keys = LOCAL.get(), effective_keys(*args)
    lines = [f"{op.name}: included {show(included)}, excluded {show(excluded)}, effective {show(keys)}"]
    lines += [f"   {NAMES[key]:<9} {op.resolve(key)[0]}" for key in sorted(NAMES, reverse=True) if keys & key]
    return "\n".join(lines)

with guard(include=LOG):
    print("11. explain:", text := explain(mul, x, 2.0))
assert [line.split()[:2] for line in text.splitlines()[1:]] == [["Log", "3"], ["Autograd", "1"], ["CPU", "1"]]
assert all(rule == op.resolve(key)[0] for op in OPERATORS for key, (rule, _) in op.table.items())  # no slot is stale
print("All claims hold.")
