"""What pytest must know of this folder."""

from __future__ import annotations

# Importing it registers backends, wrong ones among them: it is for processes of their own, and holds no doctests.
# The other one is wrong from end to end, for type checkers.
collect_ignore = ["_registered_backends.py", "typing/wrong_code.py"]
