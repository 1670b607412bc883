"""The checks behind ``tk.library.opcheck``, one function for each row of its table."""

from __future__ import annotations

from .run import run_checks

__all__ = ["run_checks"]
