"""Benchmarks of tenkey against PyTorch and NumPy, measured side by side in one run.

``benchmarks.dispatch`` measures the cost of a call, ``benchmarks.arrays`` small arrays, ``benchmarks.pointwise`` the
pointwise kernels and ``benchmarks.autograd`` backward passes. PyTorch columns require ``pip install torch==2.13.0``.
"""
