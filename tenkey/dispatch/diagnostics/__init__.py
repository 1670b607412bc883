"""Explanations of dispatch: ``explain``, missing kernels, shadowed registrations."""
