"""Limits that all versions of the moves share."""

# A column is not taken if its squared distance from the span of the others is below this, relative to its own square.
DEPENDENT = 1e-9
# The smallest pivot of a factorization.
PIVOT = 1e-14
# Columns whose log-probability is this far below the largest one are left out.
NEGLIGIBLE = 40.0
# H is computed anew after this many moves of a row, before rounding errors add up.
RENEWED = 200
# A nonzero is exchanged if that gains more than this part of the squared residual, and of the squared norm of y: more
# than rounding errors, so that exchanges come to an end.
GAIN, ROUNDING = 1e-9, 1e-13
