"""Parts of ``tools.make_stubs``: the text of a stub, and the stubs of ``tenkey.numpy``."""
