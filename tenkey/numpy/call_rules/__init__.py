"""How functions and ufuncs of ``tenkey.numpy`` are called: NumPy's dtypes and errors, composed loops, short ways."""
