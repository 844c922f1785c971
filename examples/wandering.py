"""
How the Difference Map wanders
==============================

Two sets in the plane and two searches for a point that lies in both: one is caught where the sets only come close, the
other leaves such places again.
"""

import matplotlib.pyplot as plt
import numpy as np

import sparsect

# %%
# Set B is a line, the solutions of one equation. Set A consists of three circles. The line crosses only the last one;
# at the first there is a gap that is small, but not zero. A set of your own is a class with ``project`` and ``size``.


class Circles:
    size = 2  # the largest number of nonzeros, here that of any point in the plane
    centres = np.array([[0.3, 0.9], [2.1, 1.1], [3.5, -1.0]])
    radii = np.array([0.65, 0.9, 0.45])

    def project(self, x):
        offsets = x[:, None, :] - self.centres
        distances = np.linalg.norm(offsets, axis=-1)
        points = self.centres + self.radii[:, None] * offsets / np.maximum(distances, 1e-12)[..., None]
        nearest = np.abs(distances - self.radii).argmin(axis=1)
        return points[np.arange(len(x)), nearest]


problem = sparsect.Problem(Phi=np.array([[0.25, 1.0]]), y=np.array([0.0]), sparsity=Circles())

# %%
# A solver consists of pure functions, among them ``init`` and ``step``. Calling them by hand shows every iterate. Both
# searches start at the point of B that is nearest to the origin.


def path(solver):
    state = solver.init(problem)
    points = [state.x[0]]
    while len(points) < 200 and state.criterion[0] > 1e-6:
        state = solver.step(problem, state)
        points.append(state.x[0])
    return np.array(points)


paths = {
    "Alternating Map": path(sparsect.AlternatingMap()),
    "Difference Map, beta = 0.7": path(sparsect.DifferenceMap(beta=0.7)),
}

# %%
# Alternating projections stop where the distance between the sets is smallest nearby. The Difference Map cannot: at a
# point where the gap does not vanish, every step moves x on by beta times that gap, until another part of A is nearer.
# Only a point of both sets holds it.

figure, axes = plt.subplots(1, 2, figsize=(10, 4.6), sharex=True, sharey=True, layout="constrained")
for axis, (name, points) in zip(axes, paths.items(), strict=True):
    for centre, radius in zip(Circles.centres, Circles.radii, strict=True):
        axis.add_patch(plt.Circle(centre, radius, fill=False, color="C0", linewidth=2))
    axis.axline((0, 0), slope=-0.25, color="C2", linewidth=2)
    axis.plot(*points.T, "-", color="0.7", linewidth=1, zorder=1)
    axis.scatter(*points.T, c=np.arange(len(points)), cmap="plasma", s=18, zorder=2)
    axis.plot(*points[-1], "k*", markersize=13)
    gap = np.linalg.norm(Circles().project(points[-1:])[0] - points[-1]) + abs(points[-1] @ [0.25, 1.0])
    outcome = f"found after {len(points) - 1} steps" if gap < 1e-3 else "caught"
    axis.set(title=f"{name}: {outcome}", aspect="equal", xlim=(-1.2, 4.8), ylim=(-2.2, 4.2))
axes[0].text(-0.3, 1.75, "A", color="C0", fontsize=14)
axes[0].text(-1.0, 0.35, "B", color="C2", fontsize=14)

# %%
# There is no guarantee: with two near misses that face each other, the map can move to and fro between them for ever.
# In spaces of many dimensions this is rare, and an annealed map, the core of the default method, settles in the end.
plt.show()
