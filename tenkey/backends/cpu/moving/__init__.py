"""CPU kernels that move elements: copies, and selections by indices."""
