"""Developer tools, run as ``python -m tools.<name>`` in the root of the repository."""
