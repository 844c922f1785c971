"""Many steps of the Difference Map and of its annealed form."""
