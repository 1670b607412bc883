"""Draws programs whose operands, callbacks and finalizers change arrays while a call uses them."""

from __future__ import annotations

import random
from typing import Final

__all__ = ["statements"]

_SETUP: Final = (
    "x = np.array(numbers((1000,), 'f8', 1)); y = np.array(numbers((1000,), 'f8', 2))",
    "x = np.array(numbers((4,), 'f8', 1)); y = np.array(numbers((4,), 'f8', 2))",
    "x = np.array(numbers((3, 4), 'f8', 1)); y = np.array(numbers((4,), 'i8', 2))",
    "x = np.array(numbers((60, 60), 'f8', 1)); y = np.array(numbers((60, 60), 'f8', 2)).T",
    "x = np.array(numbers((4,), 'i8', 1)); y = x[1:]", "x = np.array(True); y = np.array(2.0)",
    "x = np.array(numbers((4097,), 'f4', 1)); y = x.reshape(-1)[::2]",
    "x = np.asarray(numbers((5, 5), 'c16', 1)); y = np.array(numbers((5, 5), '?', 1))",
    "x = tk.tensor(numbers((4,), 'f8', 1)); y = np.array(numbers((4,), 'f8', 2))",
    "x = tk.tensor(numbers((30, 30), 'f8', 1)); y = tk.tensor(numbers((30,), 'f8', 2))",
    "x = np.array(numbers((0, 3), 'f8', 1)); y = np.array(numbers((3,), 'u8', 2))",
)  # fmt: skip
# A finalizer may run while its thread holds a lock that the other thread waits for: it must not join that for ever.
_ACTIONS: Final = (
    "x.resize((3,), refcheck=False)", "x.resize((5000,), refcheck=False)", "x.resize((0,), refcheck=False)",
    "x.resize((2, 2), refcheck=False)", "y.resize((1,), refcheck=False)", "x[...] = 7", "x += 1", "y[...] = 1", "del x",
    "x = None", "del y", "y = x", "junk = [numpy.full(1000, 7.0) for _ in range(20)]", "gc.collect(1)",
    "raise HostileError('in the middle')", "raise KeyError(0)", "raise MemoryError", "x.setflags(write=False)",
    "x.requires_grad_()", "np.sinh(y)", "y = x + 1", "items.clear()", "items.append(items)", "items[:] = [x] * 3",
    "items[:] = []", "x[e] = 1", "x.sum(axis=e)", "r = x + e", "del e",
    "\nwith tk.library.Library('tk', 'IMPL') as library:\n    library.impl('add', lambda a, b: a, 'CPU'); np.add(y, 1)",
    "\nwith tk.library.Library('tk', 'IMPL') as library:\n    library.impl('sinh', lambda a: a * 1, 'CPU'); np.sinh(y)",
    "tk.library.register_kernel('tk::mul', 'cpu', lambda a, b: a, allow_override=True).remove()",
    "tk.grad(lambda v: tk.sum(v * v))(y)", "t = threading.Thread(target=np.sinh, args=(y,)); t.start(); t.join(2)",
    "x.sort()", "x.fill(3)", "numpy.asarray(x)[...] = 5", "x.real = 1",
)  # fmt: skip
_METHODS: Final = (
    *("__index__",) * 6, "__len__", "__array_ufunc__", "__array__", "__array__", "__float__", "__bool__", "__radd__",
    "__rmul__", "__add__", "__int__", "__complex__", "__iter__", "__getitem__", "__eq__", "__hash__",
    "__array_function__",
    "__array_interface__", "__array_struct__", "__array_priority__", "__class__", "__dlpack__", "__iadd__", "__lt__",
    "__tk_dispatch__", "__tk_function__", "__array_finalize__", "__array_wrap__", "shape", "dtype", "__getattr__",
    "__getattribute__", "__buffer__", "__neg__", "__matmul__", "__rmatmul__", "__str__", "__repr__", "__del__",
)  # fmt: skip
_RESULTS: Final = (
    "0",
    "1",
    "-1",
    "2",
    "0.5",
    "True",
    "None",
    "NotImplemented",
    "numpy.ones(4)",
    "x",
    "y",
    "10**30",
    "'a'",
)
_BASES: Final = (
    *("",) * 6, ", int", ", float", ", complex", ", str", ", list, lambda kind: kind([0, 1])",
    ", tuple, lambda kind: kind((0, 1))", ", numpy.ndarray, lambda kind: numpy.ones(4).view(kind)",
    ", np.ndarray, lambda kind: np.ones(4).as_subclass(kind)", ", tk.Tensor, lambda kind: tk.ones(4).as_subclass(kind)",
    ", numpy.float64", ", numpy.int64", ", slice, lambda kind: slice(0)", ", np.ndarray, object.__new__",
    ", tk.Tensor, object.__new__",
)  # fmt: skip
_USES: Final = (
    "x[e]", "x[e:]", "x[:e]", "x[::e]", "x[e, 0]", "x[..., e]", "x[e, e:]", "x[e:, e]", "x[[e, 0]]", "x[[e], 0]",
    "x[e:f]",
    "x[(e, f)]", "x[slice(e, f)]", "x[items]", "x[tuple(items)]", "x + e", "e + x", "x - e", "x * e", "x / e", "x @ e",
    "e @ x", "x == e", "x < e", "x ** e", "divmod(x, e)", "x & e", "np.add(x, e)", "np.add(e, x)",
    "np.add(x, y, out=e)",
    "np.add(x, y, e)", "np.add(x, e, out=x)", "np.add(x, y, where=e, out=x)", "np.sinh(e)", "np.where(e, x, y)",
    "np.where(x > 0, e, x)", "x.sum(axis=e)", "np.sum(x, axis=e)", "np.sum(x, keepdims=e)", "np.sum(e)",
    "x.max(initial=e)",
    "x.mean(e)", "np.any(x, axis=(e, f))", "x.reshape(e, -1)", "x.reshape((e, f))", "np.reshape(x, e)",
    "x.transpose(e)",
    "x.swapaxes(e, 0)", "np.array([e, 1.0])", "np.array(e)", "np.asarray(e)", "np.array([x, e])", "np.matmul(x, e)",
    "np.dot(e, x)", "x.astype(e)", "np.zeros(e)", "np.full((2,), e)", "np.arange(e)", "np.concatenate([x, e])",
    "np.concatenate(items)", "np.stack(items)", "np.array(items)", "np.sum(items)", "x + items", "tk.add(x, e)",
    "e in x",
    "tk.sum(x, axis=e)", "tk.exp(e)", "tk.where(x > 0, x, e)", "tk.asarray(e)", "tk.concat(items)", "pow(x, e)", "-e",
    "float(e)", "len(e)", "bool(e)", "list(e)", "e[0]", "e[x]", "e + e", "repr(e)", "e.sum()", "x.item(e)", "x.take(e)",
    "np.take(x, e)", "tk.grad(lambda v: tk.sum(v * e))(x)", "tk.vmap(lambda v: v + e)(x)", "np.broadcast_to(x, e)",
    "np.multiply(x, e, dtype=f)", "x.clip(e, f)", "np.add.reduce(x, axis=e)", "np.add.at(x, e, 1)", "x.round(e)",
)  # fmt: skip
_CHANGES: Final = (
    "x[e] = 5", "x[e:] = 5.0", "x[e:] = y", "x[e] = f", "x[e:f] = y", "x[0] = e", "x[...] = e", "x[:] = e",
    "x[[e, 0]] = f",
    "x[x > 0] = e", "x[e] += 1", "x[e:] += y", "x[e:] *= f", "x += e", "x -= e", "x *= e", "x /= e", "x @= e", "x |= e",
    "x[items] = e", "x[0] = items", "x[...] = items", "x.fill(e)", "x.resize(e)", "x.resize((e, f), refcheck=False)",
    "x.itemset = e", "np.copyto(x, e)", "np.copyto(x, y, where=e)", "x[y == y] = e", "x[e] = x", "x.setflags(write=e)",
    "x.real = e", "x.flat = e", "x.flat[e] = f", "x.put(e, f)", "np.put(x, e, f)", "x.shape = e", "del x[e]",
    "x.T[e] = f",
    "e[0] = x", "e[...] = x", "e += x", "x[None] = x", "x[...] = x[0, ...]", "x[0] = x", "x[1:] = x[:-1]",
)  # fmt: skip
_FINALIZERS: Final = (
    "z = np.asarray(freed(numpy.ones(1000), {action!r})); z = z + 1",
    "x = np.asarray(freed(numpy.ones(4), {action!r}))",
    "z = freed(np.ones(4), {action!r}); z[...] = 2; del z", "items = [freed(numpy.ones(3), {action!r}), 1, 2]",
    "z = np.asarray(freed(numpy.ones(4), {action!r})); z += x", "y = freed(tk.ones(3), {action!r}); y = y * y",
    "gc.callbacks.append(lambda *a: exec({action!r}, globals())); gc.collect(1); gc.callbacks.clear()",
    "z = [np.asarray(freed(numpy.ones(4), {action!r}))]; z.append(z); del z; gc.collect(1)",
    "z = np.sum(np.asarray(freed(numpy.ones(1000), {action!r})) * 2)",
)  # fmt: skip


def _trap(rng: random.Random) -> str:
    actions = [rng.choice(_ACTIONS) for _ in range(rng.choice((1, 1, 2)))]
    action = "; ".join(actions) if all(not text.startswith("\n") for text in actions) else actions[-1]
    method, base = rng.choice(_METHODS), rng.choice(_BASES)
    # Two traps that NumPy itself does not survive, in numpy.add(e, e) and numpy.asarray(items).
    if method == "__getattribute__" and "numpy.ndarray" in base:
        base = ""
    if method == "__buffer__" and "items" in action:
        method = "__array__"
    return f"trap({method!r}, {action!r}, {rng.choice(_RESULTS)}{base})"


def statements(rng: random.Random) -> tuple[str, ...]:
    """Draw the statements of one program."""
    lines = [rng.choice(_SETUP), f"items = [{rng.choice(('0, 1', 'x, y', 'x', '[0], 1', '0'))}]"]
    for _ in range(rng.randint(2, 6)):
        lines.append(f"e = {_trap(rng)}")
        if rng.random() < 0.4:
            lines.append(f"f = {rng.choice((_trap(rng), '1', '5', 'y', 'None'))}")
        if rng.random() < 0.2:
            lines.append("items[0] = e")
        if rng.random() < 0.2:
            lines.append(rng.choice(_FINALIZERS).format(action=rng.choice(_ACTIONS)))
        lines += [
            rng.choice(_CHANGES) if rng.random() < 0.4 else f"r = {rng.choice(_USES)}" for _ in range(rng.randint(1, 3))
        ]
    return tuple(lines)
