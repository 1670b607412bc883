"""``Library``, ``register_kernel``, ``register_fake``: the public registration API.

Built-in operators and backends use the same registry calls.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Iterable
from types import CodeType
from typing import Any, Final, NamedTuple, Self, TypeVar, overload

import numpy as np

from ..core.device import device_types, to_device
from ..core.tensor import Tensor, cpu_word, make_tensor
from ..core.word import DTYPE_MASK, WEAK_MASK, dtypes_of, weak_of
from ..dispatch.diagnostics.registration_checks import check_signature
from ..dispatch.diagnostics.sites import caller_site
from ..dispatch.errors import RegistrationError
from ..dispatch.kernel import Handle, Kernel
from ..dispatch.keys import DispatchKey, DispatchKeySet
from ..dispatch.operator import Operator
from ..dispatch.registry import registry
from ..dispatch.schema import parse_schema
from ..dispatch.tags import Tag
from ..ops.builtin.shape.copying import cast
from ..ops.declare.facets import NotDifferentiable, autocast_policy
from .given_sources import is_source, kernel_of_source
from .host_functions import with_host
from .kernel_checks import checked_kernel, may_return_argument

__all__ = [
    "Library",
    "as_decorator",
    "key_for",
    "make_kernel",
    "name_of",
    "register_fake",
    "register_kernel",
    "tags_of",
]

_RESERVED: Final = (
    "[Library] the namespace {namespace!r} belongs to tenkey: choose another one, or use 'IMPL' to add kernels."
)
_FOREIGN: Final = "[Library] the schema {schema!r} names the namespace {other!r}, but the library is for {namespace!r}."
_OPERATOR_NAME: Final = re.compile(r"[A-Za-z_]\w*::[A-Za-z_]\w*(\.[A-Za-z_]\w*)?", re.ASCII)

TAGS: Final = (
    Tag.POINTWISE, Tag.REDUCTION, Tag.INPLACE, Tag.OUT, Tag.VIEW, Tag.NONDETERMINISTIC, Tag.DATA_DEPENDENT_OUTPUT,
    Tag.NEEDS_EXACT_STRIDES, Tag.MIXES_DEVICES,
)  # fmt: skip
"""The tags that ``Library.define`` accepts."""
_RESERVED_NAMESPACES: Final = frozenset({"tk", "builtin", "declare", "scalar", "install", "shapes", "views"})

_owners: dict[str, Library] = {}
_of_modules: list[Library] = []  # made in the body of a module, which may be reloaded

_Function = TypeVar("_Function", bound=Callable[..., Any])


def key_for(operator: str, key: Any) -> DispatchKey:
    """A dispatch key from a key or its name, a device string, or ``"default"`` (the composite for all backends)."""
    if isinstance(key, DispatchKey):
        return key
    if key == "default":
        return DispatchKey.CompositeExplicitAutograd
    if key == "cuda":
        return DispatchKey.CUDA
    named = getattr(DispatchKey, key, None) if isinstance(key, str) else None
    if isinstance(named, DispatchKey):  # the names of keys are PyTorch's strings
        return named
    try:
        return to_device(key).key
    except ValueError:
        raise RegistrationError(
            f"[{operator}] {key!r} is neither a dispatch key nor a device: give DispatchKey.<NAME>, one of the "
            f"devices {', '.join(device_types())}, or 'default'."
        ) from None


def make_kernel(name: str, function: Callable[..., Any], key: DispatchKey, **options: Any) -> Kernel:
    """Return the kernel for a user's function, with checks (Note [Checked kernels]) that are strict for ``custom_op``.

    Operands of pointwise operators are promoted and on the kernel's device.
    """
    if is_source(function, key):
        function = kernel_of_source(name, function, key)
    kernel = Kernel(function, key, site=caller_site(2), **options)
    if kernel.is_fallthrough:
        return kernel
    is_backend = key.functionality == "Dense"
    is_kernel = is_backend or key is DispatchKey.CompositeExplicitAutograd
    watched = is_kernel and key is not DispatchKey.Meta
    bound = (_promoting if is_backend else _binding)(function, kernel.with_keyset)

    def specialize(operator: Operator, word: int) -> Callable[..., Any]:
        made = bound(operator, word)
        if operator.schema.namespace in _RESERVED_NAMESPACES:
            new = watched and not operator.schema.is_mutable and not may_return_argument(operator)
            if new or (is_backend and key not in (DispatchKey.CPU, DispatchKey.Meta)):
                return checked_kernel(operator, word, made, written=function, strict=new, sample=new)
            return made
        strict = watched and Tag.CUSTOM_OP in operator.tags
        if strict and not is_backend:
            made = with_host(operator, word, made)
        return checked_kernel(operator, word, made, written=function, strict=strict, sample=watched)

    kernel.specialize = specialize
    if kernel.when is not None and is_backend:
        kernel.specialize_when = _promoting(kernel.when, False)
    return kernel


def _binding(function: Callable[..., Any], with_keyset: bool) -> Callable[[Operator, int], Callable[..., Any]]:
    if not with_keyset:
        return lambda operator, word: function
    return lambda operator, word: functools.partial(function, DispatchKeySet.from_word(word))


def _promoting(written: Callable[..., Any], with_keyset: bool) -> Callable[[Operator, int], Callable[..., Any]]:
    """Convert weak scalars and mixed dtypes before a pointwise kernel, or its condition, written for one dtype."""
    bound = _binding(written, with_keyset)

    def specialize(operator: Operator, word: int) -> Callable[..., Any]:
        function = bound(operator, word)
        facet = operator.facets.get("Pointwise")
        dtypes, weak = dtypes_of(word & DTYPE_MASK), weak_of(word & WEAK_MASK)
        if facet is None:
            return function
        compute, _ = facet.promotion.dtypes(operator.name, dtypes, weak)
        if dtypes == (compute,) and not weak:
            return function
        boolean = [parameter in facet.boolean for parameter in facet.parameters]

        def promoted(*args: Any, **kwargs: Any) -> Any:
            device = next(t.device for t in args if isinstance(t, Tensor) and not t._word & WEAK_MASK)
            to_device = registry.find("tk::to_device").call
            converted = []
            for value, keep in zip(args, boolean, strict=False):
                if isinstance(value, Tensor) and not keep:
                    if value._word & WEAK_MASK:
                        number = np.asarray(value._data, compute)  # on the CPU, where conversion needs no kernel
                        value = to_device(make_tensor(number, cpu_word(compute)), device)
                    elif value.dtype != compute:
                        value = cast(value, compute)
                converted.append(value)
            return function(*converted, **kwargs)

        return promoted

    return specialize


def _check_waiting(operator: Operator) -> None:
    """Check the signatures of kernels that were registered before their operator and are specialized."""
    for stack in operator.kernels.values():
        for kernel in stack:
            if kernel.origin == "explicit" and kernel.specialize is not None and kernel.specialize != kernel.function:
                check_signature(kernel.function, operator.schema, with_keyset=kernel.with_keyset, site=kernel.site)


with registry.lock, registry.deferred_installers():  # no such kernel can exist before this module is loaded
    registry.subscribe(_check_waiting)


class _Origin(NamedTuple):
    """The execution of a module's body that made a library; a reloaded module executes another code object."""

    module: str
    file: str
    code: CodeType

    def is_older_than(self, other: _Origin | None) -> bool:
        same = other is not None and (self.module, self.file) == (other.module, other.file)
        return same and other is not None and self.code is not other.code


def _origin() -> _Origin | None:
    """Return the origin of a call of ``Library`` in the body of a module that was imported from a file."""
    frame = sys._getframe(2)
    spec = frame.f_globals.get("__spec__")
    code = frame.f_code
    if code.co_name != "<module>" or spec is None or getattr(spec, "origin", None) != code.co_filename:
        return None
    return _Origin(spec.name, code.co_filename, code)


class Library:
    """Registrations for one namespace; ``kind`` is ``DEF`` (owns it), ``FRAGMENT`` (adds to it) or ``IMPL`` (kernels).

    As a context manager it removes its registrations at the end; otherwise they live as long as the process. A module
    that makes libraries can be reloaded: the earlier registrations end when its body makes the first library again.

    >>> with tk.library.Library("docs", "DEF") as lib:
    ...     _ = lib.define("twice(Tensor x) -> Tensor")
    ...     _ = lib.impl("twice", lambda x: x + x, "cpu")
    ...     tk.ops.docs.twice(tk.asarray([1.0])).tolist()
    [2.0]
    """

    ns: str
    kind: str
    site: str

    def __init__(self, ns: str, kind: str) -> None:
        site = caller_site()
        if kind not in ("DEF", "FRAGMENT", "IMPL"):
            raise RegistrationError(f"[Library] kind must be 'DEF', 'FRAGMENT' or 'IMPL', got {kind!r}.")
        if not str(ns).isidentifier():
            raise RegistrationError(f"[Library] a namespace is an identifier, got {ns!r}.")
        if kind != "IMPL" and ns in _RESERVED_NAMESPACES:
            raise RegistrationError(_RESERVED.format(namespace=ns))
        self._origin = _origin()
        for library in [made for made in _of_modules if made._origin and made._origin.is_older_than(self._origin)]:
            library.remove()
            _of_modules.remove(library)
        if kind == "DEF":
            if ns in _owners:
                raise RegistrationError(
                    f"[Library] the namespace {ns!r} is owned by a Library(..., 'DEF') already, made "
                    f"at {_owners[ns].site}, and again at {site}. Use 'FRAGMENT' to add operators to it."
                )
            _owners[ns] = self
        if self._origin is not None:
            _of_modules.append(self)
        self.ns = ns
        self.site = site
        self.kind = kind
        self._handles: dict[Handle, None] = {}  # in the order of registration; those that are removed leave

    def define(
        self,
        schema: str,
        *,
        tags: str | Iterable[str] = (),
        differentiable: bool = True,
        autocast: str | None = None,
    ) -> Handle:
        """Define an operator; the schema may omit the namespace. The handle removes it.

        ``tags`` drive derived rules: ``inplace`` derives ``name_`` and ``out`` the overload that writes to ``out=``.
        vmap requires a choice of randomness for ``nondeterministic`` and refuses ``data_dependent_output``; opcheck
        allows what these two, ``view`` and ``needs_exact_strides`` permit. With ``differentiable=False`` results carry
        no gradient. ``autocast`` is the dtype to which the floating tensors of a call are converted under
        :class:`tenkey.autocast`: ``"lower"`` (its own dtype), ``"float32"`` or ``"widest"`` (of those in the call).
        """
        if self.kind == "IMPL":
            raise RegistrationError(
                f"[Library] {self.kind!r} libraries cannot define operators: make the library with 'DEF' or 'FRAGMENT'."
            )
        parsed = parse_schema(schema)
        if parsed.namespace not in (None, self.ns):
            raise RegistrationError(_FOREIGN.format(schema=schema, other=parsed.namespace, namespace=self.ns))
        parsed = parsed.with_namespace(self.ns)
        facets: dict[str, Any] = {} if differentiable else {"NotDifferentiable": NotDifferentiable()}
        if autocast is not None:
            facets["Autocast"] = autocast_policy(parsed, autocast)
        operator = registry.define(parsed, facets=facets, tags=tags_of(parsed.name, tags), site=caller_site())
        return self._keep(Handle(lambda: registry.undefine(operator), f"operator {operator.name}"))

    def impl(
        self,
        name: str | Operator,
        fn: Callable[..., Any],
        key: Any,
        *,
        with_keyset: bool = False,
        allow_override: bool = False,
        when: Callable[..., bool] | None = None,
        priority: int = 0,
    ) -> Handle:
        """Register a kernel for an operator of the namespace, for a key, a device, or ``"default"``."""
        qualified = self._qualified(name)
        options: dict[str, Any] = {}
        if with_keyset or when is not None or priority:
            options = {"with_keyset": with_keyset, "when": when, "priority": priority}
        kernel = make_kernel(qualified, fn, key_for(qualified, key), **options)
        _check(qualified, kernel)
        return self._keep(registry.impl(qualified, kernel, allow_override=allow_override))

    def fallback(self, fn: Callable[..., Any], key: Any) -> Handle:
        """Register ``fn(op, *args, **kwargs)`` for every operator without a kernel for the key."""
        if self.ns != "_" or self.kind != "IMPL":
            raise RegistrationError(
                "[Library] a fallback is for all operators: make the library with Library('_', 'IMPL')."
            )
        kernel = Kernel(fn, key_for("fallback", key), boxed=True, site=caller_site())
        return self._keep(registry.fallback(kernel))

    def remove(self) -> None:
        """Remove everything that was registered through this library."""
        for handle in reversed([*self._handles]):
            handle.remove()
        if _owners.get(self.ns) is self:
            del _owners[self.ns]

    def _qualified(self, name: str | Operator) -> str:
        text = name_of(name)
        named = isinstance(name, str) or "::" in text
        namespace, separator, _ = text.partition("::")
        if not named or not _OPERATOR_NAME.fullmatch(text if separator else f"{self.ns}::{text}"):
            raise RegistrationError(
                f"[Library] the name of an operator is 'name' or 'name.overload', a str, got {name!r} of "
                f"type {type(name).__name__}."
            )
        if not separator and self.ns != "_":
            return f"{self.ns}::{text}"
        if not separator:
            raise RegistrationError(
                f"[Library] the namespace '_' is for all operators: write {text!r} as 'namespace::{text}'."
            )
        if self.ns not in (namespace, "_"):
            raise RegistrationError(_FOREIGN.format(schema=text, other=namespace, namespace=self.ns))
        return text

    def _keep(self, handle: Handle) -> Handle:
        def remove() -> None:
            self._handles.pop(kept, None)
            handle.remove()

        kept = Handle(remove, handle.description)
        self._handles[kept] = None
        return kept

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


def tags_of(operator: str, tags: str | Iterable[str]) -> tuple[Tag, ...]:
    """Return the given tags; raise RegistrationError for what is not a tag."""
    known = ", ".join(TAGS)
    given = _one_or_several(tags, f"[{operator}] tags is a tag or a sequence of tags", f": give some of {known}.")
    for tag in given:
        if tag not in TAGS:
            raise RegistrationError(f"[{operator}] {tag!r} is not a tag: tags are {known}.")
    return tuple(map(Tag, given))


def _one_or_several(given: str | Iterable[str], rule: str, remedy: str = ".") -> list[str]:
    """Return a name or several as a list, each once; raise RegistrationError for anything else."""
    try:
        return [given] if isinstance(given, str) else list(dict.fromkeys(given))
    except TypeError:
        raise RegistrationError(f"{rule}, got {given!r} of type {type(given).__name__}{remedy}") from None


def _check(name: str, kernel: Kernel) -> None:
    operator = registry.derive(name)
    if operator is not None and not kernel.is_fallthrough:
        check_signature(kernel.function, operator.schema, with_keyset=kernel.with_keyset, site=kernel.site)


def as_decorator(register: Callable[[Any], Handle], fn: Any) -> Any:
    """Register ``fn`` and return the handle; without ``fn``, return a decorator that registers a function."""
    if fn is not None:
        return register(fn)

    def decorate(function: _Function) -> _Function:
        register(function)
        return function

    return decorate


def name_of(op: Any) -> str:
    """Return the name of an operator, given as a name, an operator, a packet or a custom operator."""
    if isinstance(op, str):
        return op
    operator = getattr(op, "operator", op)
    return str(getattr(operator, "name", operator))


@overload
def register_kernel(
    op: Any, device: Any, fn: None = None, *, allow_override: bool = False
) -> Callable[[_Function], _Function]: ...


@overload
def register_kernel(op: Any, device: Any, fn: Callable[..., Any] | str, *, allow_override: bool = False) -> Handle: ...


def register_kernel(
    op: Any, device: Any, fn: Callable[..., Any] | str | None = None, *, allow_override: bool = False
) -> Any:
    """Register a kernel of an operator for a device or key; without ``fn``, return a decorator.

    For the device ``cuda``, ``fn`` may also be CUDA C++ as a string, or a function that ``numba.cuda.jit`` has
    decorated, with a thread for each element; ``tk.cuda.kernel`` makes kernels with another launch.

    >>> op = tk.library.custom_op("docs::half", lambda x: x / 2, mutates_args=(), schema="(Tensor x) -> Tensor")
    >>> @tk.library.register_kernel("docs::half", "meta")
    ... def half_on_meta(x):
    ...     return tk.empty(x.shape, dtype=x.dtype, device="meta")
    >>> op(tk.empty(3, device="meta")).shape
    (3,)
    """
    name = name_of(op)

    def register(function: Callable[..., Any]) -> Handle:
        registry.find(name)
        kernel = make_kernel(name, function, key_for(name, device))
        _check(name, kernel)
        return registry.impl(name, kernel, allow_override=allow_override)

    return as_decorator(register, fn)


@overload
def register_fake(op: Any, fn: None = None, *, allow_override: bool = False) -> Callable[[_Function], _Function]: ...


@overload
def register_fake(op: Any, fn: Callable[..., Any], *, allow_override: bool = False) -> Handle: ...


def register_fake(op: Any, fn: Callable[..., Any] | None = None, *, allow_override: bool = False) -> Any:
    """Register the fake of an operator: shapes and dtypes of its results on the device ``meta``, without values.

    >>> @tk.library.custom_op("docs::first_half", mutates_args=())
    ... def first_half(x: tk.Tensor) -> tk.Tensor:
    ...     return tk.asarray(x.numpy()[: x.shape[0] // 2].copy())
    >>> @tk.library.register_fake("docs::first_half")
    ... def _(x):
    ...     return tk.empty(x.shape[0] // 2, dtype=x.dtype, device=x.device)
    >>> first_half(tk.empty(6, device="meta")).shape
    (3,)
    """
    return register_kernel(op, DispatchKey.Meta, fn, allow_override=allow_override)
