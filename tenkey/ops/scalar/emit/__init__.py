"""Emission of scalar expressions as source code."""
