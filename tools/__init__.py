"""Programs for developers of the package, run as ``python -m tools.<name>`` in the root."""
