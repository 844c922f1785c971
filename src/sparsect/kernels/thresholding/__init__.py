"""Keep the s largest magnitudes of every row, and steps of the Difference Map built on that."""
