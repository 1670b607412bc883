"""Saved tensors and the hooks on them."""
