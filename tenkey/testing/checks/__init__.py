"""The checks of ``tk.library.opcheck``, one function for each row of the report."""

from .run import run_checks

__all__ = ["run_checks"]
