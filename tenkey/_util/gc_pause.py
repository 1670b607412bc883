"""A pause of Python's cyclic garbage collector while the package is imported.

Note [No collections during the import]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
An import creates a hundred thousand objects that stay and almost no garbage; the collector would traverse them again
and again, a seventh of the import's time. It pauses from the import of this module, the first one, until ``resume``. If
the import fails in between, the module object of the package is freed, which resumes the collector; if it was off
before, it stays off. ``gc.freeze()`` and ``gc.unfreeze()`` move the new objects to the oldest generation without a
traversal, so that the next allocation does not start one; they are skipped if the program has frozen objects itself.
Guarded by ``tests/package/test_gc_pause.py``.
"""

from __future__ import annotations

import gc
import sys
import weakref

__all__ = ["resume"]

_resumes = weakref.finalize(sys.modules[__name__.partition(".")[0]], gc.enable)
_resumes.atexit = False
if not gc.isenabled():
    _resumes.detach()
gc.disable()

import numpy  # noqa: E402, F401, ICN001 -- now, because its import is much slower at a greater depth of calls


def resume() -> None:
    """Let the collector run again if it did before."""
    if _resumes.alive and not gc.get_freeze_count():
        gc.freeze()
        gc.unfreeze()
    _resumes()
