"""The profiler: what is seen of a run, and how it is summed up and written."""
