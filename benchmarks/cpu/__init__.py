"""Large calls on the CPU against the faster of PyTorch and NumPy: ``python -m benchmarks.cpu``.

Groups of rows, each with a target, at 2^20 elements and at other sizes; ``--group`` and ``--only`` choose among them,
``--busy`` repeats them while another process holds a core, and ``--profile`` tells where the time of a row goes.
``--section`` chooses among ``groups``, ``sizes``, ``scaling`` and ``first`` (calls in new processes).
"""
