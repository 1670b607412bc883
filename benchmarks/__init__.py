"""Benchmarks of tenkey against PyTorch and NumPy, measured side by side in one run: ``python -m benchmarks``.

``benchmarks.cpu`` measures large calls, ``benchmarks.pool`` the launch of a parallel region, ``benchmarks.programs``
whole programs, ``benchmarks.dispatch`` the cost of a call, ``benchmarks.arrays`` small arrays, ``benchmarks.autograd``
backward passes and ``benchmarks.memory`` what they hold. benchmarks/NOTES.md explains them. PyTorch columns require
``pip install torch==2.13.0``.
"""
