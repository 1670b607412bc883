"""Python's cyclic garbage collector, paused while the package is imported.

Note [No collections during the import]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
An import makes a hundred thousand objects that stay, and no garbage to speak of (some hundred objects in cycles). The
collector counts objects, so it looks through all of them again and again: a fifth of the time of ``import tenkey``. So
it waits from the import of this module, the first of all, to :func:`resume`. Where the import fails in between, the
module object of the package goes, and the collector with it comes back; where it was off already, it stays off.
Guarded by ``tests/tiny/test_putting_off.py::TestCollector``.
"""

from __future__ import annotations

import gc
import sys
import weakref

__all__ = ["resume"]

_resumes = weakref.finalize(sys.modules[__package__], gc.enable)
_resumes.atexit = False
if not gc.isenabled():
    _resumes.detach()
gc.disable()


def resume() -> None:
    """Let it collect again, if it did before."""
    _resumes()
