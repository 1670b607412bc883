"""Registers the backends of tests/_wrong_backends.py, for a process that runs the conformance suite on one of them.

It is a module of its own, so that a test can import their names without having their devices.
"""

from __future__ import annotations

import tenkey as tk
from tests._wrong_backends import kinds

for _kind in kinds():
    tk.backends.register(_kind())
