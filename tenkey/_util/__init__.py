"""Helpers without dependencies."""
