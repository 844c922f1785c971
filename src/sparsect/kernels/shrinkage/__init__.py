"""Many steps of ADMM with p-shrinkage."""
