"""Faults of the dispatcher and of tensors."""

from __future__ import annotations

from typing import Final

from .fault import Fault

__all__ = ["CORE", "DISPATCH"]

DISPATCH: Final = (
    Fault(
        "dispatch: a generated kernel beats an explicit one",
        "tenkey/dispatch/table.py",
        'kernel.origin != "explicit"',
        'kernel.origin == "explicit"',
        ("tests/tiny/test_table.py",),
    ),
    Fault(
        "dispatch: the oldest registration wins",
        "tenkey/dispatch/table.py",
        "for kernel in reversed([*stack]) if kernel.when is None",
        "for kernel in [*stack] if kernel.when is None",
        ("tests/tiny/test_table.py",),
    ),
    Fault(
        "dispatch: an implicit composite serves autograd beside a backend's kernel",
        "tenkey/dispatch/table.py",
        "if is_backend or not has_own:",
        "if True:",
        ("tests/tiny/test_table.py",),
    ),
    Fault(
        "dispatch: priorities of conditional kernels are turned round",
        "tenkey/dispatch/table.py",
        "key=lambda kernel: -kernel.priority",
        "key=lambda kernel: kernel.priority",
        ("tests/tiny/test_table.py",),
    ),
    Fault(
        "dispatch: a fallthrough kernel is called",
        "tenkey/dispatch/table.py",
        "return kernel.is_fallthrough or bool(",
        "return bool(",
        ("tests/tiny/test_table.py",),
    ),
    Fault(
        "dispatch: tensors of two devices are mixed",
        "tenkey/dispatch/diagnostics/missing_kernel.py",
        "if len(present) > 1 else ()",
        "if len(present) > 2 else ()",
        ("tests/tiny/test_missing_kernels.py",),
    ),
    Fault(
        "dispatch: the first backend wins",
        "tenkey/dispatch/keys.py",
        "backend = next(reversed(backends_in(mask)), None)",
        "backend = next(iter(backends_in(mask)), None)",
        ("tests/tiny/test_keys.py",),
    ),
    Fault(
        "dispatch: a key is registered on the other side of its anchor",
        "tenkey/dispatch/keys.py",
        "order.index(wanted) + (before is None)",
        "order.index(wanted) + (after is None)",
        ("tests/tiny/test_keys.py",),
    ),
    Fault(
        "dispatch: inclusion wins over exclusion",
        "tenkey/dispatch/calling/bindings.py",
        "$word = ($word | $local.include) & $local.keep",
        "$word = ($word & $local.keep) | $local.include",
        ("tests/tiny/test_dispatch.py",),
    ),
    Fault(
        "dispatch: exclusion does not last",
        "tenkey/dispatch/local_state.py",
        "exclude |= self.exclude & ~unexclude",
        "exclude |= self.exclude & unexclude",
        ("tests/tiny/test_dispatch.py",),
    ),
    Fault(
        "dispatch: a guard that ends early takes later ones along",
        "tenkey/dispatch/local_state.py",
        "_changes.set(kept)",
        "_changes.set(changes[:i])",
        ("tests/tiny/test_dispatch.py",),
    ),
    Fault(
        "dispatch: an interrupt after its change leaves a guard on",
        "tenkey/dispatch/local_state.py",
        "_changes.set(changes)",
        "pass",
        ("tests/dispatch/test_interrupts.py",),
    ),
    Fault(
        "dispatch: an interrupt in the end of a guard leaves it on",
        "tenkey/dispatch/local_state.py",
        "if _changes.get() is not kept:",
        "if False:",
        ("tests/dispatch/test_interrupts.py",),
    ),
    Fault(
        "dispatch: an int prefers float to Scalar",
        "tenkey/dispatch/calling/overloads.py",
        'int: {"int": 0, "Scalar": 1, "float": 2,',
        'int: {"int": 0, "Scalar": 2, "float": 1,',
        ("tests/tiny/test_overloads.py",),
    ),
    Fault(
        "dispatch: of two overloads the one with more defaults is called",
        "tenkey/dispatch/calling/overloads.py",
        "return one[1] < other[1]",
        "return one[1] > other[1]",
        ("tests/tiny/test_overloads.py",),
    ),
    Fault(
        "dispatch: a superclass is asked before its subclass",
        "tenkey/dispatch/subclasses.py",
        "if issubclass(kind, other)), len(found))",
        "if issubclass(other, kind)), len(found))",
        ("tests/dispatch/test_subclass.py",),
    ),
    Fault(
        "dispatch: a generated kernel keeps an explicit one out",
        "tenkey/dispatch/registry.py",
        "k.key is kernel.key and k.origin == kernel.origin",
        "k.key is kernel.key",
        ("tests/tiny/test_registry.py",),
    ),
    Fault(
        "schema: a default may precede an argument without one",
        "tenkey/dispatch/schema/parser.py",
        "if not (kwarg_only or has_default) and arguments and arguments[-1].has_default:",
        "if False:",
        ("tests/tiny/test_schema.py",),
    ),
    Fault(
        "schema: arguments after the star are positional",
        "tenkey/dispatch/schema/parser.py",
        "arguments.append(Argument(name, type_, default, has_default, kwarg_only, alias))",
        "arguments.append(Argument(name, type_, default, has_default, False, alias))",
        ("tests/tiny/test_schema.py",),
    ),
)

CORE: Final = (
    Fault(
        "core: an unsigned and a signed integer keep the width",
        "tenkey/core/dtypes/promotion.py",
        "size = max(signed, 2 * unsigned)",
        "size = max(signed, unsigned)",
        ("tests/core/test_promotion.py",),
    ),
    Fault(
        "core: a Python float widens to float64",
        "tenkey/core/dtypes/promotion.py",
        "defaults.integral, defaults.real_floating, defaults.complex_floating",
        "defaults.integral, dtypes.float64, defaults.complex_floating",
        ("tests/core/test_promotion.py",),
    ),
    Fault(
        "core: a gap before the last dimension is contiguous",
        "tenkey/core/storage.py",
        "if size != 1 and stride != expected:",
        "if size != 1 and stride < expected:",
        ("tests/operators/test_layouts.py", "tests/tiny/test_tensor.py"),
    ),
    Fault(
        "core: a multiplier of Philox",
        "tenkey/core/random/philox.py",
        "np.array([[0xD2511F53], [0xCD9E8D57]]",
        "np.array([[0xD2511F55], [0xCD9E8D57]]",
        ("tests/random/test_philox.py",),
    ),
    Fault(
        "core: the increment of the key of a few Philox blocks",
        "tenkey/core/random/exact_functions.py",
        "(k0 + 0x9E3779B9)",
        "(k0 + 0x9E3779B8)",
        ("tests/random/test_philox.py",),
    ),
    Fault(
        "core: the numbers of a normal draw have variance 2",
        "tenkey/core/random/exact_functions.py",
        "m.log(positive) * -2.0",
        "m.log(positive) * -4.0",
        ("tests/random/test_philox.py",),
    ),
    Fault(
        "cpu: a compiled draw begins with the first element of a block",
        "tenkey/backends/cpu/loops/random_draws.py",
        "at = group * size - skip * parts",
        "at = group * size",
        ("tests/backends/test_random_loops.py",),
    ),
    Fault(
        "core: integers of a tensor take a Python int that does not fit",
        "tenkey/core/lift.py",
        "if not low <= value <= high:",
        "if not low <= value:",
        ("tests/tiny/test_tensor.py",),
    ),
    Fault(
        "core: a zero of a Python float loses its sign",
        "tenkey/core/lift.py",
        "return _ZERO if copysign(1.0, value.real) > 0.0 else _NEGATIVE_ZERO",
        "return _ZERO",
        ("tests/ops/test_shorter_ways.py",),
    ),
    Fault(
        "core: bfloat16 is exported as uint16",
        "tenkey/core/exchange/dlpack.py",
        "_inside(capsule).dtype.code = _BFLOAT",
        "_inside(capsule).dtype.code = _UNSIGNED",
        ("tests/core/test_dlpack.py", "tests/core/test_bfloat16.py"),
    ),
    Fault(
        "core: a tensor that requires a gradient is exported",
        "tenkey/core/exchange/dlpack.py",
        "if tensor._word & REQUIRES_GRAD & current_state().keep:",
        "if False:",
        ("tests/core/test_dlpack.py",),
    ),
    Fault(
        "core: half of the edge is printed",
        "tenkey/core/text/formatting.py",
        "if size <= 2 * edge",
        "if size <= edge",
        ("tests/core/test_printing.py",),
    ),
    Fault(
        "core: the values of a dict are not leaves",
        "tenkey/core/tree.py",
        "        return tree.values()",
        "        return None",
        ("tests/core/test_tree.py",),
    ),
)
