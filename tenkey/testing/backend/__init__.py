"""Conformance suite for backends: checks that everything works as on the CPU, with the same results.

    pytest --pyargs tenkey.testing.backend --backend NAME

``NAME`` is the device string of an installed plug-in. For a backend that a module registers, add
``--backend-module FILE_OR_MODULE``, which is imported first. The suite compares every operator with the CPU on its
sample inputs, in all layouts, and tests memory, views, copies, gradients, factories, random numbers and errors. At the
end it prints what the backend implements, what is derived, what fell back to the CPU, and what is wrong. See
``docs/adding_a_backend.md``.
"""
