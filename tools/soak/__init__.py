"""Run random programs for a given time and compare every result with an independent reference.

    python -m tools.soak --minutes 30             # a fresh seed, which is printed
    python -m tools.soak --minutes 30 --seed 7    # the programs of an earlier run
    python -m tools.soak --seed 7 --program 123   # one program of that run
    python -m tools.soak --device cuda            # the same programs on a GPU, or on the emulator of one
    python -m tools.soak --numpy                  # other programs, over arrays: see the subpackage arrays

A program is data: inputs and steps, each of which is an operator with operands and attributes (:mod:`.programs`). The
operators and their spelling in each library are a table (:mod:`.operators`). A program runs forward, backward, twice
backward, in forward mode, batched, or with two of these nested, in 1 to 4 threads, and with kernels left to NumPy,
compiled, or in transition; the reference is PyTorch where it is installed, and otherwise NumPy with finite differences
(:mod:`.checking`). Programs run in a process of their own, so that a crash or a hang is found and ends only that
process (:mod:`.worker`). What fails is reduced to a few lines (:mod:`.shrinking`) and printed as a script. The exit
status is 1 if anything failed.

Note [What counts as a wrong number]
~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
The reference computes in double precision with the same inputs, which double precision holds exactly. How far a correct
result of lower precision may be from it depends on the program, so this is measured: the reference runs again several
times with noise, of the size of the rounding error of the coarsest dtype in the program, after every step and in the
inputs. A result may differ by a multiple of the largest change that this causes, plus some units in the last place. If
the noise changes an integer or a bool, or a result by more than a hundredth, the program is skipped: it computes near a
discontinuity, or is ill-conditioned. Noise of a small constant size moves exact zeros as well, so that programs at
kinks and poles are skipped, too; a further run takes numbers of the size of rounding errors for zero. Where second
derivatives are finite differences, a kink that is touched from one side, as that of ``abs(x**2)``, shows if a little is
added to every step. Programs whose values are not finite or leave a moderate range are skipped. All of these are
counted. Guarded by ``tests/tools/test_soak.py::test_rounding_is_no_failure`` and ``::test_wrong_kernel``.
"""
