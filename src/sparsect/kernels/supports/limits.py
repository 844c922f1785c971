"""Limits that all versions of the moves share."""

# A column is not taken if its squared distance from the span of the others is below this, relative to its own square:
# fits on such columns magnify rounding errors, and hardly any noise is small enough to tell the columns apart.
DEPENDENT = 1e-6
# The same where only the residual counts: products of columns in double precision cannot resolve smaller distances.
RESOLVED = 1e-10
# The smallest pivot of a factorization.
PIVOT = 1e-14
# Columns whose log-probability is this far below the largest one are left out.
NEGLIGIBLE = 40.0
# H is computed anew after this many moves of a row, before rounding errors add up. Exchanges also compute it anew where
# one of the two columns is so close to the span of the others, relative to its own square, that an update loses digits.
RENEWED, CLOSE = 200, 1e-3
# A nonzero is exchanged if that gains more than this part of the squared residual, and of the squared norm of y: more
# than rounding errors, so that exchanges come to an end.
GAIN, ROUNDING = 1e-9, 1e-13
# The largest variance of the nonzeros for columns of norm 1, relative to ||y||^2 / s, which is to be expected. Without
# it, nearly parallel columns get huge opposite coefficients.
LARGEST_SLAB = 20.0
# The smallest ridge for columns of norm 1: with a smaller one, rounding errors can make H indefinite.
SMALLEST_RIDGE = 1e-9
# The largest ridge if the number of nonzeros is unknown: smaller nonzeros would not stand out from the noise.
LARGEST_RIDGE = 0.1
# A column that takes the place of a dependent one is at least this far from the span of the others, if there is one.
SEPARATE = 1e-2
# Two nonzeros move together if the squared correlation of their values is at least this, to two of this many columns;
# each pair is visited so many times when a chain has cooled down. The same limits hold after a move, so that pairs can
# move back: otherwise, supports of 150 nonzeros lost 0.7 dB.
INTERACTING, NEIGHBOURS, ROUNDS_OF_PAIRS = 0.25, 16, 3
