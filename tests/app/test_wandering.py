"""The Difference Map in the plane."""

import numpy as np
import pytest

import sparsect
from sparsect.app.wandering import Plane, drawing


@pytest.mark.parametrize("beta", [0.2, 0.7, 1.0])
def test_steps_are_those_of_the_solver(beta):
    plane = Plane(25.0, 0.8, beta)
    problem = sparsect.Problem(plane.normal[None], np.array([plane.offset]), 1)
    solver = sparsect.DifferenceMap(beta)
    state = solver.init(problem)
    step = plane.at(state.x[0])
    for _ in range(5):
        state, step = solver.step(problem, state), plane.after(step)
        np.testing.assert_allclose(step.x, state.x[0], atol=1e-12)


def test_the_map_arrives_at_a_point_of_both_sets():
    plane = Plane(10.0, 0.5, 0.2)
    path = [plane.at(np.array([-2.0, -1.0]))]
    while path[-1].gap > 1e-9:
        path.append(plane.after(path[-1]))
        assert len(path) < 400
    found = path[-1].in_A
    assert np.count_nonzero(found) == 1
    assert float(plane.normal @ found) == pytest.approx(plane.offset)
    assert f"after {len(path) - 1} steps" in drawing(plane, path)
