"""The recorded graph."""
