"""``vmap``: levels, batching rules and randomness."""
