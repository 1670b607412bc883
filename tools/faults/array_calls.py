"""Faults in ``tenkey.numpy``: calls in machine code, and what they may not do."""

from __future__ import annotations

from typing import Final

from .fault import Fault

__all__ = ["NUMPY"]

_CALLS: Final = "tenkey/numpy/compiled_calls"
_TESTS: Final = "tests/numpy/test_compiled_calls.py"
_CHANGES: Final = "tests/numpy/test_compiled_changes.py"

NUMPY: Final = (
    Fault(
        "numpy: compiled calls do not see modes",
        f"{_CALLS}/python_objects.py",
        'if state == known(record, "None"):',
        "if state != 0:",
        (f"{_TESTS}::TestUfuncs::test_modes_see_all_calls",),
    ),
    Fault(
        "numpy: a result keeps no reference to its word",
        f"{_CALLS}/python_objects.py",
        "put(made, WORD, retain(record, word))",
        "put(made, WORD, retain(record, retain(record, word)))",
        (f"{_TESTS}::TestRecord::test_references_are_given_back",),
    ),
    Fault(
        "numpy: compiled calls keep their plans when a kernel is registered",
        "tenkey/dispatch/operator.py",
        "        for forget in self.watchers:",
        "        for forget in self.watchers[:0]:",
        (f"{_TESTS}::TestUfuncs::test_registered_kernels_are_called",),
    ),
    Fault(
        "numpy: kernels below that of in-place operators are not looked at",
        "tenkey/numpy/call_rules/quick_calls.py",
        "if not found or not found[-1].chosen or found[-1].key.mask & backend_mask():",
        "if True:",
        (f"{_CHANGES}::TestChanges::test_registered_kernels_are_called",),
    ),
    Fault(
        "numpy: a compiled assignment does not count as a change",
        f"{_CALLS}/changing.py",
        '"PyLong_FromLongLong", version + 1, returns=Object)',
        '"PyLong_FromLongLong", version, returns=Object)',
        (f"{_CHANGES}::TestChanges::test_backward_notices_changes",),
    ),
    Fault(
        "numpy: arrays that overlap are updated as they are read",
        f"{_CALLS}/changing.py",
        "if not ((places[0] == places[1]) & (steps[0] == steps[1])):",
        "if steps[0] < 0:",
        (f"{_CHANGES}::TestChanges::test_in_place_operators_are_numpys",),
    ),
    Fault(
        "numpy: elements that share memory are written to",
        f"{_CALLS}/changing.py",
        "            if stride < reach:",
        "            if stride < 0:",
        (f"{_CHANGES}::TestChanges::test_memory_of_several_elements",),
    ),
    Fault(
        "numpy: a view that a gradient forbids to change is changed",
        f"{_CALLS}/changing.py",
        "        if word_of(record, root) != word_of(record, x):",
        "        if word_of(record, root) == 0:",
        (f"{_CHANGES}::TestChanges::test_views_that_gradients_forbid_to_change",),
    ),
    Fault(
        "numpy: an element is a view",
        "tenkey/numpy/array_parts/elements.py",
        "        made = _clone(made)  # Note [Elements are copies]",
        "        made = made[...]",
        ("tests/numpy/test_elements.py",),
    ),
    Fault(
        "numpy: views with negative strides",
        f"{_CALLS}/indexing.py",
        "        if strides[k] < 0:",
        "        if strides[k] < -1000000:",
        (f"{_TESTS}::TestIndexing::test_values_and_aliasing_are_numpys",),
    ),
    Fault(
        "numpy: loops run over transposed arrays in the order of rows",
        f"{_CALLS}/ufunc_calls.py",
        "    if array_fields.ndim(a) == 1:",
        "    if array_fields.ndim(a) > 0:",
        (f"{_TESTS}::TestUfuncs::test_operators_of_all_layouts",),
    ),
    Fault(
        "numpy: errors of a loop are lost",
        f"{_CALLS}/ufunc_calls.py",
        'if run(record, "PyErr_Occurred", returns=Object) != 0:  # a negative power of an integer',
        "if data == 0:  # a negative power of an integer",
        (f"{_TESTS}::TestUfuncs::test_errors_are_numpys",),
    ),
)
