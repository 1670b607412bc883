"""The loops of the CPU backend: templates in the language of loops, one kind of kernel in each file."""
