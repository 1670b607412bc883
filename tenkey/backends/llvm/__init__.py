"""Kernels as machine code: a language of loops, its compiler, and the code that runs without it."""
