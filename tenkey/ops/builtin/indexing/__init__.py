"""Indexing: reads and writes."""
