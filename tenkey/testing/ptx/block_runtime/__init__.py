"""Compiled code that runs kernels, written in the language of loops: the scheduler, copies under way, races."""
