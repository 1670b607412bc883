"""Reductions and statistics along axes."""
