"""Sorting, searching and sets on the CPU: which loops an array takes."""
