"""What a round of learning does: for codes with a penalty, and for codes with a given number of nonzeros."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from ..backend.arrays import Array, NumpyArray, contiguous, from_numpy, namespace, on_host, placed, take_rows, to_numpy
from ..backend.norms import norm
from ..operators import as_operator
from ..solvers.base import Solver
from .online import Online
from .samples import Sample, completed, measured_means, starting_atoms
from .sources import Source
from .statistics import ARRAYS, Statistics, gather
from .store import Dictionary
from .updates import coordinate_descent, optimal_directions, with_replacements

# Steps in a round of mini-batches.
STEPS = 20
# Signals drawn for each atom from which atoms are taken.
SPARE = 4
# By default, one in so many rounds, the last ones, is a pass over all signals.
PASSES = 8
# Sweeps over nonnegative atoms in a pass over all signals.
SWEEPS = 10

# Codes the batches of a source: gather(dictionary, source, coder, limit, iterations, means, report).
Gather = Callable[..., Statistics]
# What rounds report: numbers by name.
Numbers = dict[str, float]
Rounds = list[Numbers]


@dataclass(frozen=True)
class Stage:
    """The dictionary after a round, and what the next round needs besides.

    Attributes
    ----------
    Phi : array, shape (m, n)
        The atoms, one per column.
    recent : Statistics or None
        Statistics of recent signals; None if rounds do not remember any.
    usage : numpy.ndarray, shape (n,), or None
        The fraction of the signals of the round that use each atom; None before the first round.
    """

    Phi: Array
    recent: Statistics | None = None
    usage: NumpyArray | None = None

    def arrays(self) -> dict[str, NumpyArray]:
        """Return what a checkpoint needs besides the best dictionary, by name."""
        if self.recent is None:
            return {}
        sums = np.array([self.recent.error, self.recent.energy, self.recent.count])
        return {"current": to_numpy(self.Phi), "sums": sums} | {
            name: to_numpy(getattr(self.recent, name)) for name in ARRAYS
        }

    @classmethod
    def restored(cls, arrays: dict[str, NumpyArray], best: Array, like: Array) -> Stage:
        """Return the stage of which :meth:`arrays` were saved.

        Parameters
        ----------
        arrays : dict of numpy.ndarray
            The arrays of the checkpoint.
        best : array, shape (m, n)
            The best dictionary, on the device wanted.
        like : array
            An array of the library and on the device of the statistics.

        Returns
        -------
        Stage
            The stage.

        Raises
        ------
        KeyError
            If an array is missing.
        ValueError
            If one cannot be what was saved.
        """
        m, n = best.shape
        shapes = {"current": (m, n), "sums": (3,), "codes_codes": (n, n), "codes_signals": (n, m), "usage": (n,)}
        for name, shape in shapes.items():
            array = arrays[name]
            if array.shape != shape or array.dtype != (arrays["Phi"].dtype if name == "current" else np.float64):
                raise ValueError(f"{name} has dtype {array.dtype} and shape {array.shape}")
            if not np.isfinite(array).all():
                raise ValueError(f"{name} has entries that are NaN or infinite")
        error, energy, count = arrays["sums"].tolist()
        if not (error >= 0 and energy >= 0 and count > 0):
            raise ValueError("sums has entries that are not positive")
        if (arrays["usage"] < 0).any() or (np.diag(arrays["codes_codes"]) < 0).any():
            raise ValueError("usage or codes_codes has negative entries")
        if not np.allclose(np.linalg.norm(arrays["current"], axis=0), 1, atol=1e-3):
            raise ValueError("current has columns whose norm is not 1")
        codes_codes, codes_signals, usage = (from_numpy(arrays[name], like) for name in ARRAYS)
        recent = Statistics(codes_codes, codes_signals, usage, error, energy, count)
        return cls(from_numpy(arrays["current"], best), recent)


def _check_rounds(rounds: Rounds, names: tuple[str, ...]) -> None:
    """Check the numbers of rounds that were read from a file."""
    if not rounds:
        raise ValueError("rounds has none")
    for numbers in rounds:
        # A KeyError if one of the names is missing.
        for name in {*names, *numbers}:
            if not 0 <= numbers[name] < math.inf:
                raise ValueError(f"rounds has a value of {name} that is negative, NaN or infinite")


class Procedure(Protocol):
    """Protocol of a way of learning, round by round."""

    @property
    def like(self) -> Array:
        """An array of the library and on the device of the statistics."""

    def start(self) -> Stage:
        """Return the starting point."""

    def batches(self, rounds: Rounds) -> int:
        """Return the number of batches in the round after these."""

    def signals(self, rounds: Rounds) -> int:
        """Return the number of signals that the round after these codes."""

    def left(self, rounds: Rounds) -> int:
        """Return the number of signals that all rounds after these code, if learning does not end earlier."""

    def finished(self, rounds: Rounds) -> bool:
        """Whether further rounds are of no use."""

    def round(self, stage: Stage, best: Array, rounds: Rounds, report: Callable[[int], None]) -> tuple[Stage, Numbers]:
        """Do one round, from the stage or from the best dictionary so far; return the new stage and its numbers."""

    def best(self, rounds: Rounds) -> int:
        """Return the number of the round, from 0, whose dictionary is the result."""

    def restored(self, arrays: dict[str, NumpyArray], best: Dictionary) -> Stage:
        """Return the stage after the rounds of the best dictionary of a checkpoint, see :meth:`Stage.restored`."""

    def continues(self, rounds: Rounds, planned: object) -> bool:
        """Whether these rounds, of which so many had been planned, are those with which this learning begins."""


@dataclass(frozen=True)
class Penalized:
    """The paper's learning: all signals are coded with a penalty, and the method of optimal directions follows.

    Attributes
    ----------
    source : Source
        Training signals.
    validation : Source or None
        Signals on which the error of the dictionary before the update is reported.
    sample : array, shape (rows, m)
        Random training signals, for the first atoms and replacements.
    n_atoms : int
        Number of atoms.
    coding : tuple
        The coder, the maximum number of nonzeros, and the number of iterations.
    rounds : int
        Number of rounds.
    seed : int
        Seed for atoms and replacements.
    gather : callable
        Codes the batches of a source.
    """

    source: Source
    validation: Source | None
    sample: Array
    n_atoms: int
    coding: tuple[Solver, int, int]
    rounds: int
    seed: int
    gather: Gather

    @property
    def like(self) -> Array:
        """An array of the library and on the device of the statistics."""
        return self.sample

    def start(self) -> Stage:
        """Return atoms that are signals."""
        return Stage(starting_atoms(self.sample, self.n_atoms, np.random.default_rng([self.seed, 0])).T)

    def batches(self, rounds: Rounds) -> int:
        """Return the number of batches of the source."""
        return self.source.batches

    def signals(self, rounds: Rounds) -> int:
        """Return the number of signals of the source."""
        return self.source.size

    def left(self, rounds: Rounds) -> int:
        """Return the number of signals that the remaining rounds code."""
        return (self.rounds - len(rounds)) * self.source.size

    def finished(self, rounds: Rounds) -> bool:
        """Return False: the penalty, not the error, is minimized, and all rounds are wanted."""
        return False

    def round(self, stage: Stage, best: Array, rounds: Rounds, report: Callable[[int], None]) -> tuple[Stage, Numbers]:
        """Code all signals and update the dictionary."""
        dictionary = Dictionary(stage.Phi)
        means = to_numpy(measured_means(self.sample))
        total = self.gather(dictionary, self.source, *self.coding, means, report)
        numbers = {"error": total.relative_error, "nonzeros": total.mean_nonzeros}
        if self.validation is not None:
            held_out = self.gather(dictionary, self.validation, *self.coding, means, lambda batches: None)
            numbers |= {"validation_error": held_out.relative_error, "validation_nonzeros": held_out.mean_nonzeros}
        spare = starting_atoms(self.sample, self.n_atoms, np.random.default_rng([self.seed, 1 + len(rounds)]))
        atoms, _ = with_replacements(optimal_directions(total), total, spare)
        return Stage(namespace(atoms).astype(atoms.T, stage.Phi.dtype), usage=total.fractions), numbers

    def best(self, rounds: Rounds) -> int:
        """Return the number of the last round."""
        return len(rounds) - 1

    def restored(self, arrays: dict[str, NumpyArray], best: Dictionary) -> Stage:
        """Return the dictionary, which is all that rounds need."""
        _check_rounds(best.rounds, ("error",))
        return Stage(best.Phi)

    def continues(self, rounds: Rounds, planned: object) -> bool:
        """Return True: all rounds are the same."""
        return True


@dataclass(frozen=True)
class Limited:
    """Learning for codes with a given number of nonzeros.

    The first rounds learn from mini-batches of a sample, and the last ones are passes over all signals, which begin
    earlier if the error has not fallen for some rounds, and end if it rises.

    Attributes
    ----------
    source : Source
        Training signals.
    sample : Sample
        Some of them, or all, in memory.
    n_atoms : int
        Number of atoms.
    online : Online
        Settings of the mini-batches.
    overfits : bool
        Whether there are so few signals that the codes of mini-batches are shrunk.
    rounds, patience : int
        Number of rounds, and of rounds without a smaller error after which the passes begin.
    passes : int or None
        Number of passes among the rounds; None for the default.
    seed : int
        Seed for atoms, mini-batches and replacements.
    gather : callable
        Codes the batches of a source.
    """

    source: Source
    sample: Sample
    n_atoms: int
    online: Online
    overfits: bool
    rounds: int
    passes: int | None
    patience: int
    seed: int
    gather: Gather

    @property
    def like(self) -> Array:
        """An array of the library and on the device of the statistics."""
        return self.sample.rows

    def start(self) -> Stage:
        """Return atoms that are signals."""
        return Stage(from_numpy(to_numpy(contiguous(self._fresh(0).T)), self.sample.like))

    def batches(self, rounds: Rounds) -> int:
        """Return the number of steps of a round of mini-batches, or of batches of a pass."""
        return self.source.batches if self._is_pass(rounds) else STEPS

    def signals(self, rounds: Rounds) -> int:
        """Return the number of signals of a round of mini-batches, or of the source."""
        return self.source.size if self._is_pass(rounds) else STEPS * self._batch(len(rounds))

    def left(self, rounds: Rounds) -> int:
        """Return the number of signals that the remaining rounds code, if the passes do not begin or end earlier."""
        passed = sum(not numbers["remembered"] for numbers in rounds)
        coming = () if self._is_pass(rounds) else range(len(rounds), self.rounds - self._passes)
        steps = STEPS * sum(self._batch(number) for number in coming)
        return steps + (self._passes - passed) * self.source.size

    def finished(self, rounds: Rounds) -> bool:
        """Whether the passes are done, or the last one has not lowered the error."""
        passes = [numbers for numbers in rounds if not numbers["remembered"]]
        worse = len(passes) > 1 and self._error(passes[-1]) >= self._error(passes[-2])
        return worse or len(passes) >= self._passes

    def round(self, stage: Stage, best: Array, rounds: Rounds, report: Callable[[int], None]) -> tuple[Stage, Numbers]:
        """Do a round of mini-batches, or a pass over all signals that starts from the best dictionary."""
        if self._is_pass(rounds):
            stage, total = self._passed(best, len(rounds), report)
        else:
            stage, total = self._stepped(stage, len(rounds), report)
        numbers = {"error": total.relative_error, "nonzeros": total.mean_nonzeros}
        measured = self._coded(stage.Phi, self.sample.measured)
        kind = "" if self.sample.held_out is None else "validation_"
        numbers |= {f"{kind}error": measured.relative_error, f"{kind}nonzeros": measured.mean_nonzeros}
        return stage, numbers | {"remembered": 0.0 if stage.recent is None else stage.recent.count}

    def best(self, rounds: Rounds) -> int:
        """Return the number of the round with the smallest error, from 0."""
        return int(np.argmin([self._error(numbers) for numbers in rounds]))

    def restored(self, arrays: dict[str, NumpyArray], best: Dictionary) -> Stage:
        """Return the current dictionary with its statistics, or the best one before a pass."""
        _check_rounds(best.rounds, ("error", "remembered"))
        return Stage.restored(arrays, best.Phi, self.like) if best.rounds[-1]["remembered"] else Stage(best.Phi)

    def continues(self, rounds: Rounds, planned: object) -> bool:
        """Whether as many rounds had been planned, or those that had been are finished."""
        return planned == self.rounds or (isinstance(planned, int) and replace(self, rounds=planned).finished(rounds))

    @property
    def _passes(self) -> int:
        """Number of passes among the rounds."""
        if self.passes is not None:
            return self.passes
        # Passes do not shrink codes, and would undo what that gains.
        return 1 if self.overfits else max(1, self.rounds // PASSES)

    def _batch(self, number: int) -> int:
        """Number of signals in the mini-batches of a round, counted from 0."""
        done = number / (self.rounds - self._passes)
        return self.online.batch(self.n_atoms, done, self.sample.rows.shape[0], on_host(self.sample.rows))

    def _is_pass(self, rounds: Rounds) -> bool:
        """Whether the round after these is a pass over all signals."""
        stalled = bool(rounds) and len(rounds) - self.best(rounds) > self.patience
        return stalled or len(rounds) >= self.rounds - self._passes or any(not each["remembered"] for each in rounds)

    @staticmethod
    def _error(numbers: Numbers) -> float:
        return numbers.get("validation_error", numbers["error"])

    def _fresh(self, number: int) -> Array:
        """Draw atoms from the sample."""
        generate = np.random.default_rng([self.seed, number])
        signals = completed(self.sample.some(SPARE * self.n_atoms, generate))
        if np.count_nonzero(to_numpy(norm(signals))) < min(self.n_atoms, signals.shape[0]):
            signals = completed(self.sample.rows)
        signs = self.online.nonnegative_atoms, not self.online.nonnegative_codes
        return starting_atoms(signals, self.n_atoms, generate, *signs)

    def _coded(self, Phi: Array, signals: Array) -> Statistics:
        return gather(as_operator(Phi), placed(signals, Phi), *self.online.coding(), self.sample.means)

    def _stepped(self, stage: Stage, number: int, report: Callable[[int], None]) -> tuple[Stage, Statistics]:
        """Do a round of mini-batches, and return the sum of their statistics, too."""
        rows, generate = self.sample.rows, np.random.default_rng([self.seed, number + 1])
        size = self._batch(number)
        passes = [generate.permutation(rows.shape[0]) for _ in range(-(-STEPS * size // rows.shape[0]))]
        parts: list[Statistics] = []
        Phi, recent = from_numpy(np.ascontiguousarray(to_numpy(stage.Phi)), rows), stage.recent
        batches = np.concatenate(passes)[: STEPS * size].reshape(STEPS, size)
        penalty = self.online.penalty(Phi, take_rows(rows, batches[0])) if self.overfits else None
        for step, chosen in enumerate(batches):
            done = (number + step / STEPS) / (self.rounds - self._passes)
            Phi, recent, new = self.online.step(Phi, recent, take_rows(rows, chosen), done, penalty)
            parts.append(new)
            report(step + 1)
        assert recent is not None
        atoms, recent = self.online.replaced(Phi.T, recent, self._fresh(number + 1))
        total = sum(parts[1:], start=parts[0])
        return Stage(from_numpy(to_numpy(contiguous(atoms.T)), stage.Phi), recent, total.fractions), total

    def _passed(self, Phi: Array, number: int, report: Callable[[int], None]) -> tuple[Stage, Statistics]:
        """Update the dictionary with the codes of all signals but those held out."""
        total = self.gather(Dictionary(Phi), self.source, *self.online.coding(), self.sample.means, report)
        if self.sample.held_out is not None and self.sample.from_source:
            total += self._coded(Phi, self.sample.held_out).faded(-1.0)
        if self.online.nonnegative_atoms:
            atoms = coordinate_descent(total, Phi.T, nonnegative=True, sweeps=SWEEPS)
        else:
            atoms = optimal_directions(total)
        spare = from_numpy(to_numpy(self._fresh(number + 1)), Phi)
        atoms, _ = self.online.replaced(atoms, total, spare)
        return Stage(namespace(atoms).astype(atoms.T, Phi.dtype), usage=total.fractions), total
