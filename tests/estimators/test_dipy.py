"""SparseRegressor as the solver of DIPY's sparse fascicle model."""

import numpy as np
import pytest

from sparsect import SparseRegressor

pytest.importorskip("dipy", reason="DIPY is not installed: pip install dipy")

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize("method", ["auto", "omp"])
def test_two_fibres(method):
    from dipy.core.gradients import gradient_table
    from dipy.data import get_sphere
    from dipy.reconst.sfm import SparseFascicleModel
    from dipy.sims.voxel import multi_tensor

    bvecs = get_sphere(name="repulsion100").vertices
    gradients = gradient_table(np.append(0.0, np.full(100, 2000.0)), bvecs=np.concatenate([np.zeros((1, 3)), bvecs]))
    sphere, response = get_sphere(name="repulsion200"), np.array([0.0017, 0.0003, 0.0003])
    true = sphere.vertices[[10, int(np.argmin(np.abs(sphere.vertices @ sphere.vertices[10])))]]
    signal = multi_tensor(gradients, [response] * 2, angles=true, fractions=[50, 50], snr=None)[0]
    solver = SparseRegressor(2, nonnegative=True, method=method, max_iter=100)
    fit = SparseFascicleModel(gradients, sphere=sphere, response=response, solver=solver).fit(np.stack([signal] * 2))
    assert fit.beta.shape == (2, 200)
    assert (np.count_nonzero(fit.beta, axis=1) == 2).all()
    assert (fit.beta >= 0).all()
    for weights in fit.beta:
        cosines = np.abs(true @ sphere.vertices[weights > 0].T)
        assert cosines.max(axis=1).min() > np.cos(np.deg2rad(10))
