"""Least squares on a given support, row by row."""
