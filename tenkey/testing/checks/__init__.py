"""The checks of ``tk.library.opcheck``, one function for each row of the report."""

from __future__ import annotations

from .run import run_checks

__all__ = ["run_checks"]
