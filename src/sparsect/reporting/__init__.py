"""Plots of problems and results, HTML pages, and the page that shows the reconstructions of an image."""
