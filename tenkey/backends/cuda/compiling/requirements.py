"""What the compilation of kernels needs, and the error when it is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..device.driver import DriverMissingError, packages_missing

__all__ = ["with_compilers"]

_REMEDY = "install tenkey's extra with `pip install 'tenkey[cuda]'`, or set TENKEY_PREBUILT to a folder of kernels"


@contextmanager
def with_compilers(name: str) -> Iterator[None]:
    """Turn the absence of a compiler, or of a library that it loads, into an error with the remedy."""
    problem = packages_missing()
    if problem is not None:
        raise DriverMissingError(
            f"{problem} It is needed to compile {name}, unless TENKEY_PREBUILT names a folder with it."
        )
    try:
        yield
    except (ImportError, RuntimeError) as error:
        if isinstance(error, ImportError) or type(error).__name__ == "DynamicLibNotFoundError":
            reason = str(error).partition("\n")[0]
            text = f"[{name}] the kernel cannot be compiled, because a library is missing ({reason}): {_REMEDY}."
            raise DriverMissingError(text) from error
        raise
