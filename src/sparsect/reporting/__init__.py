"""What does it look like? Plots, pages that hold them, the gallery of pictures."""
