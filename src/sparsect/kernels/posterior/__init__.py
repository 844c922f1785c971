"""Posterior mean of Bernoulli-Gaussian entries seen in normal noise."""
