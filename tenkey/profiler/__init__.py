"""The profiler: it records the calls of a run, sums them up and exports them."""
