"""What pytest must know of this folder."""

from __future__ import annotations

# Importing it registers backends, wrong ones among them: it is for processes of their own, and holds no doctests.
collect_ignore = ["_registered_backends.py"]
