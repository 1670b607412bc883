"""A pause of Python's cyclic garbage collector while the package is imported.

Note [No collections during the import]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
An import creates a hundred thousand objects that stay and almost no garbage; the collector would traverse them again
and again, a seventh of the import's time. From the import of this module, the first one, until ``resume``, it waits for
more objects than an import creates. It is not switched off, because an import can fail: then the module object of the
package is freed, which calls ``resume``, but it may be part of a cycle with the exception, which only the collector
frees. A second import calls ``resume`` at once. A collector that is off stays off. ``gc.freeze()`` and
``gc.unfreeze()`` move the new objects to the oldest generation without a traversal, so that the next allocation does
not start one; they are skipped if the program has frozen objects itself. Guarded by ``tests/package/test_gc_pause.py``.
"""

from __future__ import annotations

import gc
import sys
import weakref
from typing import Final

__all__ = ["resume"]

_MANY: Final = 1_000_000
_before: Final = gc.get_threshold()
_resumes: Final = weakref.finalize(sys.modules[__name__.partition(".")[0]], gc.set_threshold, *_before)
_resumes.atexit = False
if gc.isenabled() and 0 < _before[0] < _MANY:
    gc.set_threshold(_MANY, *_before[1:])

import numpy  # noqa: E402, F401, ICN001 -- now, because its import is much slower at a greater depth of calls


def resume() -> None:
    """Let the collector run as before."""
    if _resumes.alive and gc.isenabled() and not gc.get_freeze_count():
        gc.freeze()
        gc.unfreeze()
    _resumes()
