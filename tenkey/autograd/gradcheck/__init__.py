"""Checks of gradients against finite differences."""
