"""Calls as type checkers see them: ``make lint`` runs mypy here, where an ignored error that is none fails, too."""

import numpy as np
import numpy.typing as npt
from scipy.sparse.linalg import aslinearoperator

import sparsect


class FirstTwo:
    """A set of one's own."""

    size = 2

    def project(self, x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Keep the first two entries."""
        return np.where(np.arange(x.shape[-1]) < 2, x, 0.0)


def calls() -> None:
    """Make them; they are checked and never run."""
    Phi, y = np.eye(3), np.ones(3)
    result: sparsect.Result = sparsect.recover(Phi, y, 2, "omp")
    assert result.x.shape == (3,)
    sparsect.recover(aslinearoperator(Phi), [1.0, 2.0, 3.0], "auto")
    sparsect.recover(Phi, y, FirstTwo(), "difference-map")
    sparsect.recover(Phi, y, 2, "ompp")  # type: ignore[arg-type]
    sparsect.recover(Phi, y, "all")  # type: ignore[arg-type]
    sparsect.recover(Phi, y, 2, data=Phi)  # type: ignore[arg-type]
    sparsect.images.denoise(Phi, 0.1, quality="worst")  # type: ignore[arg-type]
