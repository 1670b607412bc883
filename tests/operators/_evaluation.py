"""References that are found by the name of an operator, by its block, or by its parts, and the dtypes of results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import scipy.special

import tenkey as tk
from tenkey.core.tree import tree_map
from tenkey.core.word import WEAK_MASK
from tenkey.dispatch import DispatchMode
from tenkey.dispatch.operator import Operator
from tenkey.testing import SampleInput

__all__ = ["composite_reference", "declared_reference", "named_reference", "numpy_function", "result_rule"]

Array = np.ndarray[Any, Any]

_ALIASES: Final = {
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh", "acosh": "arccosh", "atanh": "arctanh",
    "atan2": "arctan2", "pow": "power", "round": "rint", "bitwise_invert": "invert", "digamma": "psi",
    "bitwise_left_shift": "left_shift", "bitwise_right_shift": "right_shift", "lgamma": "gammaln",
    "sigmoid": "expit",
}  # fmt: skip


def _function(name: str) -> Callable[..., Any] | None:
    found = getattr(np, _ALIASES.get(name, name), None)
    if not isinstance(found, np.ufunc):
        found = getattr(scipy.special, _ALIASES.get(name, name), None)
    return found if isinstance(found, np.ufunc) else None


def named_reference(operator: Operator) -> Callable[..., Any] | None:
    """The ufunc of NumPy or SciPy with the name of a pointwise operator and as many operands."""
    found = _function(operator.schema.base_name)
    known = isinstance(found, np.ufunc) and found.nin == len(operator.schema.arguments)
    return found if known else None


def numpy_function(operator: Operator) -> Callable[..., Any] | None:
    """NumPy's function with the name of an operator, in the submodule that its prefix names."""
    name = operator.schema.base_name
    for prefix, module in (("fft_", np.fft), ("linalg_", np.linalg)):
        if name.startswith(prefix):
            return getattr(module, name.removeprefix(prefix), None)
    return getattr(np, name, None)


def _wide(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.dtype.kind in "fc":
        return value.astype(np.clongdouble if value.dtype.kind == "c" else np.longdouble)
    return value


def _narrow(value: Any, like: np.dtype[Any]) -> Any:
    value = np.asarray(value)
    if value.dtype.kind not in "fc":
        return value
    return value.astype(like if like.kind in "fc" else np.float64)


def declared_reference(operator: Operator) -> Callable[..., Any] | None:
    """The ``reference=`` of a block, which for a pointwise operator is computed in extended precision."""
    if "Reference" not in operator.facets:
        return None
    function: Callable[..., Any] = operator.facets["Reference"].function
    if "Pointwise" not in operator.facets:
        return function

    def reference(*args: Any, **kwargs: Any) -> Any:
        common = np.result_type(*[value for value in args if isinstance(value, np.ndarray)])
        return _narrow(function(*[_wide(value) for value in args], **kwargs), common)

    return reference


def composite_reference(operator: Operator, reference_of: Callable[[Operator], Any]) -> Callable[..., Any]:
    """What a composite gives when each operator that it is made of is replaced by its reference.

    Factories, whose references have no ``device``, and operators without a reference run as they are.
    """

    class References(DispatchMode):
        def __tk_dispatch__(self, op: Operator, types: Any, args: Any, kwargs: Any) -> Any:
            if op is operator:
                with self:
                    return op.facets["Composite"].function(*args, **kwargs)
            sample = SampleInput(args, kwargs)
            function = reference_of(op) if sample.tensors() else None
            if function is None:
                return op(*args, **kwargs)
            given = sample.map(lambda t: t.item() if t._word & WEAK_MASK else t.detach().numpy())
            return tree_map(tk.asarray, function(*given.args, **given.kwargs))

    def reference(*args: Any, **kwargs: Any) -> Any:
        given = tree_map(lambda x: tk.asarray(x) if isinstance(x, np.ndarray) else x, SampleInput(args, kwargs))
        with References():
            found = operator.call(*given.args, **given.kwargs)
        return tree_map(lambda t: t.numpy(), found)

    return reference


def result_rule(operator: Operator) -> str | None:
    """The rule for the dtype of the result, by the documented meaning of the promotion's name."""
    functional = operator.facets["Inplace"].functional if "Inplace" in operator.facets else operator
    if functional is None:
        return "same"
    facet = functional.facets.get("Pointwise") or functional.facets.get("Reduce")
    if facet is None:
        return None
    if facet.promotion.name in ("INT_TO_FLOAT", "REAL_TO_FLOAT", "EACH_TO_FLOAT"):
        return "float"
    if facet.promotion.name in ("COMPARISON", "ORDER", "BOOLEAN"):
        return "bool"
    return {"SUM": "accumulator", "MAGNITUDE": "real"}.get(facet.promotion.name, "same")
