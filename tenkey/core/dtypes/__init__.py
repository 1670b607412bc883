"""Data types: names, limits, promotion."""
