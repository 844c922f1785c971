"""Bounds that keep posteriors within floating point, the same on every device."""

# Log odds beyond this are certainty.
CERTAIN = 80.0
# Added to the probability of a zero, so that its logarithm exists.
NEVER_ALL = 1e-12
# The smallest posterior variance, which is divided by; single precision holds it.
LEAST = 1e-37
