"""Problems of SPARCO, written anew from their published descriptions.

E. van den Berg, M. P. Friedlander, G. Hennenfent, F. J. Herrmann, R. Saab and O. Yilmaz, "Sparco: a testing framework
for sparse reconstruction", 2007. Sizes and numbers of nonzeros are theirs; random numbers are not. There is no noise.
"""

import numpy as np
from benchmark_utils.problems import data, measured, spikes
from benchopt import BaseDataset
from scipy.fft import dct
from scipy.linalg import toeplitz

# Places and sizes of the jumps of Donoho and Johnstone's Blocks.
JUMPS = (0.10, 0.13, 0.15, 0.23, 0.25, 0.40, 0.44, 0.65, 0.76, 0.78, 0.81)
HEIGHTS = (4.0, -5.0, 3.0, -4.0, 5.0, -4.2, 2.1, 4.3, -3.1, 2.1, -4.2)


def cosines(n):
    """Return the orthonormal cosines of length n in columns."""
    return dct(np.eye(n), norm="ortho", axis=0).T


def cosines_and_spikes(rng, problems, waves, count, n=1024):
    """Return signals of a few given cosines and ``count`` spikes in the basis of both, that basis and the signals."""
    x = np.zeros((problems, 2 * n))
    for place, height in waves.items():
        x[:, place] = height * np.sqrt(n / 2)
    x[:, n:] = spikes(rng, problems, n, count)
    return np.hstack([cosines(n), np.eye(n)]), x


def cosspike(rng, problems):
    """Problem 3: two cosines and 120 spikes, seen directly."""
    return cosines_and_spikes(rng, problems, {4: 4.0, 12: 2.0}, 120)


def gcosspike(rng, problems):
    """Problem 5: three cosines and 60 spikes, 300 normal measurements."""
    basis, x = cosines_and_spikes(rng, problems, {3: 2.0, 9: 3.0, 20: -1.0}, 60)
    return rng.standard_normal((300, 1024)) / np.sqrt(300) @ basis, x


def sgnspike(rng, problems):
    """Problem 7: 20 spikes of height 1 or -1, 600 normal measurements of 2,560 places."""
    Phi = rng.standard_normal((600, 2560))
    return Phi / np.linalg.norm(Phi, axis=0), spikes(
        rng, problems, 2560, 20, lambda size: rng.choice([-1.0, 1.0], size)
    )


def blkheavi(rng, problems, n=128, normalized=False):
    """Problem 9: the jumps of Blocks, seen through a matrix of steps; on training problems at random places."""
    x = np.zeros((problems, n))
    for number, row in enumerate(x):
        # The signal itself is the first row; other rows, and training, have the same jumps elsewhere.
        places = np.array(JUMPS) if number == 0 else np.sort(rng.random(len(JUMPS)))
        np.add.at(row, np.clip(np.ceil(places * n).astype(int), 1, n - 1), HEIGHTS)
    Phi = np.tril(np.ones((n, n)))
    return (Phi / np.linalg.norm(Phi, axis=0) if normalized else Phi), x


def blknheavi(rng, problems):
    """Problem 10: the same with 1,024 places and columns of norm 1."""
    return blkheavi(rng, problems, 1024, True)


def gausspike(rng, problems):
    """Problem 11: 32 normal spikes, 256 normal measurements of 1,024 places."""
    return rng.standard_normal((256, 1024)) / np.sqrt(256), spikes(rng, problems, 1024, 32)


def jitter(rng, problems):
    """Problem 902: three cosines of length 1,000, sampled about every fifth time, with jitter."""
    times = np.arange(0, 1000, 5) + np.rint(2.5 * rng.random(200) * rng.choice([-1, 1], 200)).astype(int)
    return cosines(1000)[times % 1000], spikes(rng, problems, 1000, 3)


def spiketrn(rng, problems, n=1024, width=0.05):
    """Problem 903: 12 spikes convolved with a truncated second derivative of a Gaussian."""
    time = np.linspace(-1, 1, n)
    kernel = ((time / width**2) ** 2 - 1 / width**2) * np.exp(-0.5 * (time / width) ** 2)
    kernel = kernel[467:] / kernel[467]
    column = np.concatenate([kernel, np.zeros(n - kernel.size)])
    Phi = toeplitz(column, np.zeros(n))

    def heights(size):
        return rng.choice([-1, 1], size) * (0.1 + np.abs(rng.standard_normal(size)))

    return Phi, spikes(rng, problems, n, 12, heights)


PROBLEMS = {
    3: (cosspike, 122), 5: (gcosspike, 63), 7: (sgnspike, 20), 9: (blkheavi, 11), 10: (blknheavi, 11),
    11: (gausspike, 32), 902: (jitter, 3), 903: (spiketrn, 12),
}  # fmt: skip


class Dataset(BaseDataset):
    name = "SPARCO"
    parameters = {"problem": list(PROBLEMS), "problems": [3]}
    test_parameters = {"problem": [11], "problems": [2]}

    def get_data(self):
        problem, sparsity = PROBLEMS[self.problem]

        def draw(rng, problems):
            Phi, x = problem(rng, problems)
            return Phi, x, measured(Phi, x, None, rng)

        return data(draw, sparsity, self.get_seed(use_repetition=True), self.problems)
