"""Counter-based random bits, and the distributions computed from them."""
