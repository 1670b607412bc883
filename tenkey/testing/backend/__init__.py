"""The conformance suite for backends: what works on the CPU works on yours, with the same results.

    pytest --pyargs tenkey.testing.backend --backend NAME

``NAME`` is the device string of an installed plug-in. A backend that is registered by a module is found with
``--backend-module FILE_OR_MODULE``, which is imported first. The suite runs every operator on its sample inputs, in all
layouts, against the CPU's answers, and tests memory, views, copies, gradients, factories, random numbers and errors.
At the end it prints what the backend implements, what is derived, what fell back to the CPU, and what is wrong.
``docs/adding_a_backend.md`` is the way there.
"""

from __future__ import annotations
