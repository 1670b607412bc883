"""Derivative formulas, from facets to functions."""
