"""Random programs over arrays: ``tenkey.numpy`` and ``tk`` beside NumPy, and operands that change what is in use.

    python -m tools.soak --numpy --minutes 2
    PYTHONMALLOC=debug MALLOC_PERTURB_=165 python -m tools.soak --numpy --minutes 2    # finds uses of freed memory
    TENKEY_COMPILED=0 python -m tools.soak --numpy                                     # small calls in Python

A program is a tuple of Python statements (:mod:`.program`) of one of three kinds:

- *compared* (:mod:`.drawing`): every statement runs with NumPy and with tenkey. Values, dtypes, shapes and the classes
  of errors must agree after each; :mod:`.differences` lists the exceptions and where they are documented.
- *hostile* (:mod:`.hostile`): operands, callbacks and finalizers resize, overwrite or delete arrays in the middle of a
  call. NumPy itself does not survive all of these, so only tenkey runs them. It must neither crash nor raise an
  internal error, every array must stay readable, and later calls must give the right results.
- *interrupted*: the statements run in a loop while a timer raises an exception. Each one must arrive.

During some programs, other threads register and remove kernels, enter modes and run transforms (:mod:`.pressure`).
Programs run in a worker process (:mod:`tools.soak.worker`), so that a crash ends only that process.
"""
