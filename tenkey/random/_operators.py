"""The operators of random numbers, which an import of ``tenkey`` does not declare."""

from __future__ import annotations

from ..ops.builtin import load

load("random")  # Note [Operators that are declared on first use]
from ..ops.builtin.random import *  # noqa: E402, F403
