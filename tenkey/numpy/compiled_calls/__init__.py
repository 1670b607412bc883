"""Calls of ``tenkey.numpy`` in machine code: Note [Small calls in machine code] in ``ufunc_calls.py``."""
