"""Bounds that keep posteriors within the range of floating-point numbers, the same on every device."""

# Log odds are clipped at this magnitude.
CERTAIN = 80.0
# Added to the probability of a zero entry, so that its logarithm is finite.
NEVER_ALL = 1e-12
# The smallest posterior variance; it is a divisor, and representable in single precision.
LEAST = 1e-37
# A normal variable whose mean is this many standard deviations above zero is positive.
SURELY_POSITIVE = 8.0
# Bounds that are farther than this many standard deviations from a mean are taken to be there.
FARTHEST = 1e8
# The largest mean square of values beyond a bound, relative to the square of the bound.
WIDEST = 1e4
