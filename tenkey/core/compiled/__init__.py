"""The compiled core of small calls: an optional extension, written in Cython's pure Python mode.

``loading`` imports it if it was built for this interpreter. The modules with a ``.pxd`` file are compiled by
``hatch_build.py`` when tenkey is installed, and are never imported as Python source.
"""
