"""Views and in-place operations under autograd."""
