"""The pseudo-inverse of an operator: by singular vectors, by a tight frame, or by conjugate gradients.

Every data projection moves x within the row space of Phi. A :class:`PseudoInverse` provides the operations that this
requires, in *image coordinates* that it defines: ``image(x)`` is V^H x where an orthonormal basis V of the
row space is known (Phi = U S V^H) and Phi x otherwise. With K = Phi Phi^H, for a residual ``r`` in image
coordinates::

    correction(r, alpha) = Phi^H (K + alpha I)^-1 r      (and its image; alpha = 0 is the pseudo-inverse itself)
    spectrum(r, ...)     = coordinates of r and eigenvalues in which K is diagonal
"""

from .base import PseudoInverse
from .conjugate_gradients import ConjugateGradients
from .orthonormal import OrthonormalBasis, SingularVectors, TightFrame

__all__ = ["ConjugateGradients", "OrthonormalBasis", "PseudoInverse", "SingularVectors", "TightFrame"]
