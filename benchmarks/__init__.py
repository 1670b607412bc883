"""Benchmarks of tenkey against PyTorch and NumPy, measured side by side in one run.

``python -m benchmarks.dispatch`` measures what a call costs, ``python -m benchmarks.pointwise`` the pointwise kernels.
PyTorch's column appears where it is installed: ``pip install torch==2.13.0``.
"""
