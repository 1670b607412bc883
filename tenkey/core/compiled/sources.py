"""List and hash the sources of the compiled core.

The build hook (``hatch_build.py``) loads this file by its path, before tenkey's dependencies are installed: it imports
only the standard library, and nothing at all from tenkey.
"""

from __future__ import annotations

import os

try:
    from _blake2 import blake2b  # hashlib loads OpenSSL, which takes longer than the hash
except ImportError:
    from hashlib import blake2b

__all__ = ["module_names", "source_hash"]

_BUILD = b"2"  # increase it whenever hatch_build.py compiles the same sources differently


def module_names(folder: str) -> list[str]:
    """Return the names of the modules in ``folder`` that are compiled, sorted: those with a ``.pxd`` file."""
    return sorted(name[:-4] for name in os.listdir(folder) if name.endswith(".pxd"))


def source_hash(folder: str) -> str:
    """Return a hash of the sources that are compiled: 32 hexadecimal digits.

    An extension has the hash of its own sources as ``handles.SOURCE_HASH``. Line endings do not count: version control
    may change them.
    """
    digest = blake2b(_BUILD, digest_size=16)
    for name in module_names(folder):
        for suffix in (".py", ".pxd"):
            with open(os.path.join(folder, name + suffix), "rb") as file:
                text = file.read().replace(b"\r\n", b"\n")
            digest.update(b"%s%s %d\n%b" % (name.encode(), suffix.encode(), len(text), text))
    return digest.hexdigest()
