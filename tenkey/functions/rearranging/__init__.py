"""Functions that join, cut and overwrite tensors, and that make indices; they call operators."""
