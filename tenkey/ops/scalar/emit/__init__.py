"""Source code from scalar expressions."""
