"""Numerical methods: differences, convolution, histograms, Fourier transforms."""
