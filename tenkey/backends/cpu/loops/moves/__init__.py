"""Loops that move elements: runs, copies between strided arrays, triangles of matrices."""
