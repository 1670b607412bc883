"""Python's cyclic garbage collector, paused while the package is imported.

Note [No collections during the import]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
An import makes a hundred thousand objects that stay, and no garbage to speak of (some hundred objects in cycles). The
collector counts objects, so it looks through all of them again and again: a fifth of the time of ``import tenkey``. So
it waits from the import of this module, the first of all, to :func:`resume`. Where the import fails in between, the
module object of the package goes, and the collector with it comes back; where it was off already, it stays off.

What was made would then all be young, and the next allocation would start a collection that looks through it after all
(a seventh of the import). ``gc.freeze()`` and ``gc.unfreeze()`` link it into the oldest generation, where it belongs,
without a look. Where somebody has frozen objects already they stay as they are, and the collection is paid for.
Guarded by ``tests/package/test_collector.py``.
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
    if _resumes.alive and not gc.get_freeze_count():
        gc.freeze()
        gc.unfreeze()
    _resumes()
