"""Sources of training signals, the update, and a dictionary recovered from signals that were made with one."""

import pickle
from pathlib import Path

import dask
import dask.array as da
import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import load_digits

import sparsect
from sparsect import InputError
from sparsect.backend.arrays import to_numpy
from sparsect.backend.locks import reserved
from sparsect.dictionary import (
    ArraySource,
    DaskSource,
    Dictionary,
    Statistics,
    as_dictionary,
    learn,
    learning,
    list_dictionaries,
    load_dictionary,
    procedures,
    samples,
)
from sparsect.dictionary import online as online_module
from sparsect.dictionary import statistics as statistics_module
from sparsect.dictionary.online import Online
from sparsect.dictionary.pictures import atom_tiles
from sparsect.dictionary.samples import Sample
from sparsect.dictionary.statistics import gather
from sparsect.dictionary.updates import coordinate_descent, optimal_directions, turned_apart, with_replacements
from sparsect.images import PatchSource
from sparsect.reporting import plots

pytestmark = pytest.mark.numerical

DATA = Path(sparsect.__file__).parent / "data"


class TestSources:
    def test_patches_are_patches_of_the_images(self, rng):
        images = [rng.random((9, 12)), rng.random((7, 5))]
        patches = PatchSource(images, patch=4, size=200, rng=3, batch_size=60)
        assert (patches.batches, patches.size) == (4, 200)
        known = {
            tuple(np.round(image[i : i + 4, j : j + 4].ravel() - image[i : i + 4, j : j + 4].mean(), 9))
            for image in images
            for i in range(image.shape[0] - 3)
            for j in range(image.shape[1] - 3)
        }
        drawn = [tuple(np.round(row, 9)) for index in range(4) for row in patches.batch(index)]
        assert len(drawn) == 200
        assert set(drawn) <= known
        assert len(set(drawn)) > 0.8 * len(known)

    def test_the_same_number_gives_the_same_batch(self, rng):
        image = rng.random((20, 20))
        first, second, other = (PatchSource([image], 5, 100, rng=seed, batch_size=30) for seed in (1, 1, 2))
        np.testing.assert_array_equal(first.batch(2), second.batch(2))
        assert not np.array_equal(first.batch(2), first.batch(1))
        assert not np.array_equal(first.batch(2), other.batch(2))

    def test_arrays_in_batches(self, rng):
        signals = rng.standard_normal((25, 6))
        source = ArraySource(signals, batch_size=10)
        together = np.concatenate([source.batch(index) for index in range(source.batches)])
        np.testing.assert_array_equal(together, signals)

    def test_errors(self):
        with pytest.raises(InputError, match=r"images\[1\]` must .*at least 4.*got 3x9 pixels"):
            PatchSource([np.zeros((5, 5)), np.zeros((3, 9))], 4, 10)
        with pytest.raises(InputError, match=r"images` must .*got none"):
            PatchSource([], 4, 10)
        for images in (None, 3, "photos", iter([]), np.array(2.0), csr_array((2, 2))):
            with pytest.raises(InputError, match=r"images` must .*a list of images.*got an object of type .*"):
                PatchSource(images, 4, 10)
        with pytest.raises(InputError, match=r"must .*at least a number of type int"):
            PatchSource([np.zeros((5, 5))], 10**5000, 10)
        with pytest.raises(InputError, match=r"signals` must .*got shape"):
            ArraySource(np.zeros((0, 4)))


def statistics_of(codes, signals):
    usage = (codes != 0).sum(axis=0).astype(float)
    return Statistics(codes.T @ codes, codes.T @ signals, usage, 0.0, 1.0, len(codes))


def unit(atoms):
    return atoms / np.linalg.norm(atoms, axis=1, keepdims=True)


class TestUpdate:
    def test_is_the_least_squares_optimum(self, rng):
        codes, signals = rng.standard_normal((50, 6)), rng.standard_normal((50, 9))
        expected = np.linalg.lstsq(codes, signals)[0]
        updated = optimal_directions(statistics_of(codes, signals))
        np.testing.assert_allclose(updated, unit(expected), atol=1e-8)

    def test_one_sweep_is_optimal_atom_by_atom(self, rng):
        codes, signals, atoms = rng.standard_normal((50, 4)), rng.standard_normal((50, 9)), unit(np.eye(4, 9) + 0.1)
        expected = atoms.copy()
        for j in range(4):
            rest = signals - np.delete(codes, j, axis=1) @ np.delete(expected, j, axis=0)
            expected[j] = codes[:, j] @ rest
            expected[j] /= np.linalg.norm(expected[j])
        updated = coordinate_descent(statistics_of(codes, signals), atoms)
        np.testing.assert_allclose(updated, expected, atol=1e-12)

    def test_sweeps_lower_the_error_and_keep_signs(self, rng):
        codes, signals = rng.random((50, 4)), rng.standard_normal((50, 9))
        codes[:, 3] = 0
        atoms = unit(rng.random((4, 9)))
        updated = coordinate_descent(statistics_of(codes, signals), atoms, nonnegative=True, sweeps=5)
        assert updated.min() == 0
        np.testing.assert_allclose(np.linalg.norm(updated, axis=1), 1)
        np.testing.assert_array_equal(updated[3], atoms[3])
        assert np.linalg.norm(codes @ updated - signals) < np.linalg.norm(codes @ atoms - signals)

    def test_unused_atoms_are_replaced(self, rng):
        codes, signals = rng.standard_normal((50, 6)), rng.standard_normal((50, 9))
        codes[:, 2] = 0
        statistics, spare = statistics_of(codes, signals), unit(rng.standard_normal((6, 9)))
        atoms = optimal_directions(statistics)
        updated, _ = with_replacements(atoms, statistics, spare)
        np.testing.assert_array_equal(updated[2], spare[2])
        np.testing.assert_array_equal(np.delete(updated, 2, axis=0), np.delete(atoms, 2, axis=0))

    def test_atoms_used_seldom_are_replaced(self, rng):
        codes, signals = rng.standard_normal((50, 6)), rng.standard_normal((50, 9))
        codes[3:, 2] = 0
        statistics, spare = statistics_of(codes, signals), unit(rng.standard_normal((6, 9)))
        atoms = optimal_directions(statistics)
        assert with_replacements(atoms, statistics, spare, seldom=0.05)[0] is atoms
        np.testing.assert_array_equal(with_replacements(atoms, statistics, spare, seldom=0.1)[0][2], spare[2])

    def test_of_two_atoms_that_are_nearly_the_same_the_one_used_more_stays(self, rng):
        atoms, spare = unit(rng.standard_normal((5, 30))), unit(rng.standard_normal((5, 30)))
        atoms[3] = -unit(atoms[1:2] + 0.001)
        codes = rng.standard_normal((40, 5))
        codes[:10, 1] = 0
        statistics = statistics_of(codes, rng.standard_normal((40, 30)))
        np.testing.assert_array_equal(with_replacements(atoms, statistics, spare)[0], atoms)
        updated, kept = with_replacements(atoms, statistics, spare, max_coherence=0.9)
        np.testing.assert_array_equal(updated[1], spare[1])
        np.testing.assert_array_equal(np.delete(updated, 1, axis=0), np.delete(atoms, 1, axis=0))
        # The new atom does not inherit the codes of the old one.
        assert not kept.codes_codes[1].any()
        assert not kept.codes_codes[:, 1].any()
        assert not kept.codes_signals[1].any()
        assert kept.usage.tolist() == [40, 0, 40, 40, 40]

    def test_atoms_are_turned_apart(self, rng):
        pair = unit(rng.standard_normal((1, 9)) + np.array([[0.3], [-0.3]]) * rng.standard_normal((1, 9)))
        pair[1] *= -1
        turned = turned_apart(pair, 0.5)
        assert 0.499 < -turned[0] @ turned[1] < 0.5
        # Both turn by the same angle, in their plane.
        np.testing.assert_allclose(turned[0] @ pair[0], turned[1] @ pair[1])
        assert np.linalg.matrix_rank(np.concatenate([pair, turned]), tol=1e-9) == 2
        atoms = unit(np.abs(rng.standard_normal((40, 16))))
        atoms[1] = atoms[0]
        for nonnegative, limit in ((False, 0.4), (True, 0.75)):
            turned = turned_apart(atoms, limit, nonnegative)
            np.testing.assert_allclose(np.linalg.norm(turned, axis=1), 1)
            assert np.triu(np.abs(turned @ turned.T), 1).max() <= limit
            assert not nonnegative or turned.min() >= 0
        apart = turned_apart(atoms, 0.4)
        np.testing.assert_array_equal(turned_apart(apart, 0.4), apart)

    def test_statistics_add_up(self, rng):
        operator = sparsect.as_operator(rng.standard_normal((9, 15)))
        signals = rng.standard_normal((40, 9))
        options = (sparsect.ADMM(mu=1.0, lam=0.1), 15, 10)
        whole = gather(operator, signals, *options)
        parts = gather(operator, signals[:13], *options) + gather(operator, signals[13:], *options)
        np.testing.assert_allclose(parts.codes_codes, whole.codes_codes, atol=1e-10)
        np.testing.assert_allclose(parts.codes_signals, whole.codes_signals, atol=1e-10)
        assert parts.count == whole.count == 40
        assert parts.relative_error == pytest.approx(whole.relative_error)
        assert parts.mean_nonzeros == pytest.approx(whole.mean_nonzeros)

    @pytest.mark.parametrize(("method", "loops"), [("ormp", 0), ("lars", 0), ("niht", 1)])
    def test_coders_that_end_by_themselves_need_no_loop(self, method, loops, rng, monkeypatch):
        Phi, signals = rng.standard_normal((9, 15)), rng.standard_normal((40, 9))
        Phi /= np.linalg.norm(Phi, axis=0)
        codes = sparsect.recover(Phi, signals, 3, method, max_iter=3, tol=0.0, check_fit=False).x
        called = []
        monkeypatch.setattr(
            statistics_module,
            "recover",
            lambda *args, **options: called.append(1) or sparsect.recover(*args, **options),
        )
        sums = gather(sparsect.as_operator(Phi), signals, sparsect.METHODS[method](), 3, 3)
        np.testing.assert_allclose(sums.codes_codes, codes.T @ codes, atol=1e-10)
        assert len(called) == loops


class TestLearn:
    def source(self, rng, truth, count=3000):
        codes = np.zeros((count, truth.shape[1]))
        for row in codes:
            row[rng.choice(truth.shape[1], 2, replace=False)] = rng.choice([-1, 1], 2) * (1 + rng.random(2))
        return ArraySource(codes @ truth.T, batch_size=1000)

    def test_finds_the_dictionary_that_made_the_signals(self, rng):
        truth = rng.standard_normal((16, 20))
        truth -= truth.mean(axis=0)
        truth /= np.linalg.norm(truth, axis=0)
        learned = learn(self.source(rng, truth), 24, coder=sparsect.OrthogonalMatchingPursuit(), sparsity=2, rounds=25)
        nearest = np.abs(truth.T @ learned.Phi).max(axis=1)
        assert (nearest > 0.99).mean() >= 0.8
        np.testing.assert_allclose(np.linalg.norm(learned.Phi, axis=0), 1)

    def test_the_error_falls_and_seeds_decide(self, rng):
        image = np.cumsum(np.cumsum(rng.standard_normal((40, 40)), axis=0), axis=1) / 40
        source = PatchSource([image], 5, 2000, rng=0, batch_size=500)
        options = {
            "coder": sparsect.ADMM(mu=1.0, lam=0.02),
            "rounds": 6,
            "validation": PatchSource([image], 5, 200, rng=1),
        }
        seen = []
        first, second = (learn(source, 40, rng=4, progress=seen.append, **options) for _ in range(2))
        np.testing.assert_array_equal(first.Phi, second.Phi)
        assert [(step.round, step.batch) for step in seen[:6]] == [(1, 1), (1, 2), (1, 3), (1, 4), (1, 4), (2, 1)]
        assert seen[4].dictionary.rounds == first.rounds[:1]
        assert first.rounds[-1]["error"] < first.rounds[0]["error"]
        assert 0 < first.rounds[-1]["validation_error"] < 1

    def test_goes_on_where_it_stopped(self, rng, tmp_path):
        source, path = ArraySource(rng.standard_normal((300, 9)), batch_size=100), tmp_path / "mine.npz"
        unbroken = learn(source, 12, rounds=5)

        def stop(progress):
            if progress.round == 3:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            learn(source, 12, rounds=5, checkpoint=path, progress=stop)
        assert len(load_dictionary(path).rounds) == 2
        resumed = learn(source, 12, rounds=5, checkpoint=path)
        np.testing.assert_array_equal(resumed.Phi, unbroken.Phi)
        np.testing.assert_array_equal(load_dictionary(path).Phi, unbroken.Phi)
        assert resumed.rounds == load_dictionary(path).rounds == unbroken.rounds
        with pytest.raises(InputError, match=r"mine.npz: was learned with other values of .*code_iter, seed"):
            learn(source, 12, rounds=5, checkpoint=path, rng=1, code_iter=5)
        with pytest.raises(InputError, match="other values of n_atoms or patch"):
            learn(source, 13, rounds=5, checkpoint=path)
        other = ArraySource(rng.standard_normal((300, 9)), batch_size=100)
        with pytest.raises(InputError, match="other values of digest"):
            learn(other, 12, rounds=5, checkpoint=path)

    def test_a_checkpoint_that_another_process_writes_is_refused(self, rng, tmp_path):
        source = ArraySource(rng.standard_normal((300, 9)), batch_size=100)
        with reserved(tmp_path / "mine.npz"), pytest.raises(InputError, match=r"mine\.npz: another process"):
            learn(source, 12, rounds=1, checkpoint=tmp_path / "mine.npz")

    def test_starts_from_different_atoms(self, rng):
        short = learn(ArraySource(rng.standard_normal((101, 9)), batch_size=100), 9, rounds=1)
        few = learn(ArraySource(rng.standard_normal((20, 9))), 40, rounds=1)
        for learned in (short, few):
            assert np.linalg.matrix_rank(learned.Phi, tol=1e-6) == 9
            similar = np.abs(learned.Phi.T @ learned.Phi) - np.eye(learned.Phi.shape[1])
            assert similar.max() < 1 - 1e-6

    def test_constant_signals_are_refused(self):
        with pytest.raises(InputError, match="signals` must not all be zero, got zeros only"):
            learn(PatchSource([np.ones((10, 10))], 4, 50), 3)


def planted(rng, count=3000, m=16, n=20, s=2, noise=0.0):
    """Signals of s atoms of a random dictionary each, and the dictionary."""
    truth = unit(rng.standard_normal((n, m))).T
    codes = np.zeros((count, n))
    for row in codes:
        row[rng.choice(n, s, replace=False)] = rng.choice([-1, 1], s) * (1 + rng.random(s))
    return codes @ truth.T + noise * rng.standard_normal((count, m)), truth


def computed_where_they_are(signals, monkeypatch):
    """Arrays of another library that are treated like those on a GPU: they are not moved to main memory."""
    strict = pytest.importorskip("array_api_strict")
    for module in (samples, procedures, learning):
        monkeypatch.setattr(module, "on_host", lambda array: type(array) is np.ndarray)
    return strict.asarray(signals)


class TestSparsity:
    """Learning for a given number of nonzeros."""

    def test_finds_the_dictionary_that_made_the_signals(self, rng):
        signals, truth = planted(rng, noise=0.02)
        learned = learn(ArraySource(signals), 20, sparsity=2, rounds=16)
        assert (np.abs(truth.T @ learned.Phi).max(axis=1) > 0.99).mean() >= 0.9
        np.testing.assert_allclose(np.linalg.norm(learned.Phi, axis=0), 1)

    def test_the_best_round_is_kept_and_all_are_recorded(self, rng):
        signals, _ = planted(rng, 600, noise=0.3)
        learned = learn(ArraySource(signals), 30, sparsity=3, rounds=24, patience=3)
        assert len(learned.rounds) < 24
        errors = [numbers["validation_error"] for numbers in learned.rounds]
        assert max(numbers["validation_nonzeros"] for numbers in learned.rounds) <= 3
        # Passes over all signals come last, and remember no others.
        passes = [numbers["remembered"] == 0 for numbers in learned.rounds]
        assert passes == sorted(passes)
        assert 1 <= sum(passes) <= 3
        seen = {}
        show = lambda step: seen.setdefault(len(step.dictionary.rounds), step.dictionary.Phi)  # noqa: E731
        again = learn(ArraySource(signals), 30, sparsity=3, rounds=24, patience=3, progress=show)
        # Products of arrays at other addresses may differ in their last bits.
        np.testing.assert_allclose(again.Phi, learned.Phi, atol=1e-9)
        errors = [numbers["validation_error"] for numbers in again.rounds]
        for done in range(1, len(errors) + 1):
            np.testing.assert_array_equal(seen[done], seen[np.argmin(errors[:done]) + 1])

    @pytest.mark.parametrize("way", ["plain", "few", "validation", "nonnegative", "missing", "float32", "as on a GPU"])
    def test_goes_on_where_it_stopped(self, rng, tmp_path, way, monkeypatch):
        signals, _ = planted(rng, 200 if way == "few" else 400, noise=0.1)
        if way == "as on a GPU":
            signals = computed_where_they_are(signals, monkeypatch)
        if way == "missing":
            signals[rng.random(signals.shape) < 0.1] = np.nan
        if way == "float32":
            signals = signals.astype(np.float32)
        source = ArraySource(signals, batch_size=150, missing="nan" if way == "missing" else None)
        path = tmp_path / "mine.npz"
        options = {
            "sparsity": 2,
            "rounds": 9,
            "validation": ArraySource(signals[:50, :]) if way == "validation" else None,
        }
        if way == "nonnegative":
            options |= {"nonnegative_codes": True, "nonnegative_atoms": True}
        unbroken = learn(source, 24, **options)
        for last, batch in ((1, 7), (4, 1), (8, 20), (9, 2)):

            def stop(progress, last=last, batch=batch):
                if (progress.round, progress.batch) == (last, batch):
                    raise KeyboardInterrupt

            with pytest.raises(KeyboardInterrupt):
                learn(source, 24, checkpoint=path, progress=stop, **options)
        resumed = learn(source, 24, checkpoint=path, **options)
        np.testing.assert_array_equal(to_numpy(resumed.Phi), to_numpy(unbroken.Phi))
        np.testing.assert_array_equal(load_dictionary(path).Phi, to_numpy(unbroken.Phi))
        np.testing.assert_array_equal(resumed.usage, unbroken.usage)
        assert resumed.rounds == load_dictionary(path).rounds == unbroken.rounds
        with np.load(path) as file:
            assert set(file) == {"Phi", "rounds", "provenance", "use"}
        with pytest.raises(InputError, match=r"mine.npz: was learned with other values of sparsity"):
            learn(source, 24, checkpoint=path, **options | {"sparsity": 3})
        more = learn(source, 24, checkpoint=path, **options | {"rounds": 32})
        assert more.rounds[: len(unbroken.rounds)] == unbroken.rounds
        assert min(error(more)) <= min(error(unbroken))

    def interrupted(self, source, path, last=2, **options):
        """Save a checkpoint of learning that stops in a round."""

        def stop(progress):
            if progress.round == last:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            learn(source, 20, checkpoint=path, progress=stop, **options)

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"usage": np.zeros(3)}, r"usage has dtype float64 and shape \(3,\)"),
            ({"sums": None}, "sums is missing"),
            ({"current": None}, "current is missing"),
            ({"current": np.zeros((16, 20))}, "current has columns whose norm is not 1"),
            ({"current": np.full((16, 20), 0.25 + 0j)}, "current has dtype complex128"),
            ({"sums": np.zeros(3)}, "sums has entries that are not positive"),
            ({"sums": np.array([1.0, -1.0, 1.0])}, "sums has entries that are not positive"),
            ({"usage": np.full(20, -1.0)}, "negative entries"),
            ({"codes_codes": -np.eye(20)}, "negative entries"),
            ({"codes_codes": np.full((20, 20), np.nan)}, "codes_codes has entries that are NaN or infinite"),
            ({"codes_codes": np.eye(20, dtype=complex)}, "codes_codes has dtype complex128"),
            ({"codes_signals": np.full((20, 16), "text")}, "codes_signals has dtype <U4"),
            ({"rounds": np.array('[{"error": 0.5, "nonzeros": 2.0}]')}, "remembered is missing"),
            ({"rounds": np.array('[{"remembered": 9.0}]')}, "error is missing"),
            ({"rounds": np.array('[{"error": NaN, "remembered": 9.0}]')}, "rounds has a value of error that is"),
            ({"rounds": np.array("[]")}, "rounds has none"),
        ],
    )
    def test_a_damaged_checkpoint_is_refused(self, changes, message, rng, tmp_path):
        source, path = ArraySource(planted(rng, 200)[0]), tmp_path / "mine.npz"
        self.interrupted(source, path, sparsity=2, rounds=8)
        with np.load(path) as file:
            arrays = dict(file) | changes
        np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
        with pytest.raises(InputError, match=rf"mine\.npz: damaged.*{message}"):
            learn(source, 20, sparsity=2, rounds=8, checkpoint=path)

    def test_a_damaged_checkpoint_of_penalized_learning_is_refused(self, rng, tmp_path):
        source, path = ArraySource(planted(rng, 200)[0]), tmp_path / "mine.npz"
        self.interrupted(source, path, rounds=8)
        with np.load(path) as file:
            np.savez(path, **dict(file) | {"rounds": np.array('[{"nonzeros": 2.0}]')})
        with pytest.raises(InputError, match=r"mine\.npz: damaged, error is missing"):
            learn(source, 20, rounds=8, checkpoint=path)

    @pytest.mark.parametrize(("last", "passes"), [(2, None), (16, None), (15, 3)])
    def test_an_unfinished_run_needs_the_same_rounds(self, rng, tmp_path, last, passes):
        """With another number, the result would not be that of a run without interruption."""
        source, path = ArraySource(planted(rng, 400, noise=0.1)[0]), tmp_path / "mine.npz"
        self.interrupted(source, path, last, sparsity=2, rounds=16, passes=passes)
        for rounds in (12, 32):
            with pytest.raises(InputError, match=r"mine\.npz: was learned with other values of rounds;"):
                learn(source, 20, sparsity=2, rounds=rounds, passes=passes, checkpoint=path)
        finished = learn(source, 20, sparsity=2, rounds=16, passes=passes, checkpoint=path)
        more = learn(source, 20, sparsity=2, rounds=32, passes=passes, checkpoint=path)
        assert more.rounds[: len(finished.rounds)] == finished.rounds

    @pytest.mark.parametrize("missing", [None, "nan"])
    @pytest.mark.parametrize(("options", "count"), [({"sparsity": 2}, 700), ({"sparsity": 2}, 250), ({}, 700)])
    def test_batches_do_not_matter(self, rng, options, count, missing):
        signals, _ = planted(rng, count, noise=0.1)
        if missing is not None:
            signals[rng.random(signals.shape) < 0.1] = np.nan
        chunked = da.from_array(signals, chunks=((1, 99, 50, count - 150), 16))
        sources = [ArraySource(signals, missing=missing), ArraySource(signals, 33, missing=missing)]
        sources += [DaskSource(chunked, missing)] if missing else [chunked]
        # Whatever scheduler other tests have left.
        with dask.config.set(scheduler="synchronous"):
            first, *others = (learn(source, 24, rounds=9, **options).Phi for source in sources)
        for other in others:
            np.testing.assert_allclose(other, first, atol=1e-9)

    def test_signals_held_out_are_not_learned_from(self, rng, monkeypatch):
        """A pass subtracts what signals held out add to the sums."""
        signals, _ = planted(rng, 400, noise=0.1)
        source, seen = ArraySource(signals), []
        monkeypatch.setattr(
            "sparsect.dictionary.procedures.optimal_directions",
            lambda statistics: seen.append(statistics) or optimal_directions(statistics),
        )
        learn(source, 20, sparsity=2, rounds=1)
        held_out = Sample.drawn(source, None, 20, 0).held_out
        assert len(held_out) == 20
        assert seen[0].count == 380
        rest = [row for row in signals if not (row == held_out).all(axis=1).any()]
        assert seen[0].energy == pytest.approx(np.square(rest).sum())

    @pytest.mark.parametrize("nonnegative", [False, True])
    def test_keeps_the_coherence_limit(self, nonnegative):
        """Atoms above it used to be replaced by signals that exceeded it, too."""
        digits = load_digits().data
        signs = {"nonnegative_codes": nonnegative, "nonnegative_atoms": nonnegative}
        learned = learn(ArraySource(digits[::2]), 60, sparsity=5, max_coherence=0.7, rounds=12, **signs).Phi
        assert np.triu(np.abs(learned.T @ learned), 1).max() <= 0.7
        assert not nonnegative or learned.min() >= 0
        if not nonnegative:
            error = sparsect.recover(learned, digits[1::2], 5, "ormp").residual_norm
            assert np.linalg.norm(error) < 0.22 * np.linalg.norm(digits[1::2])

    def test_few_signals(self, rng):
        learned = learn(ArraySource(planted(rng, 30)[0]), 24, sparsity=2, rounds=4)
        assert learned.Phi.shape == (16, 24)
        assert "validation_error" not in learned.rounds[0]
        assert learn(ArraySource(planted(rng, 100)[0]), 1, sparsity=1, rounds=3).Phi.shape == (16, 1)

    def test_codes_of_few_signals_are_shrunk(self):
        """Atoms that few signals use would fit their noise."""
        digits = load_digits().data
        source, others = ArraySource(digits[:600]), digits[1200:]
        learned = learn(source, 100, sparsity=3, patience=20)
        assert len(learned.rounds) == 20
        nonzeros = [numbers["nonzeros"] for numbers in learned.rounds]
        assert nonzeros[-1] == 3  # a pass over all signals
        assert np.mean(nonzeros[3:-1]) == pytest.approx(4.5, rel=0.1)
        plain = learn(source, 100, sparsity=3, coder=sparsect.OrderRecursiveMatchingPursuit())
        assert max(numbers["nonzeros"] for numbers in plain.rounds) <= 3
        for method in ("omp", "ormp"):
            errors = [
                np.linalg.norm(sparsect.recover(each.Phi, others, 3, method).residual_norm) for each in (learned, plain)
            ]
            assert errors[0] < 0.99 * errors[1]

    def test_codes_of_a_small_table_are_shrunk(self):
        X = np.exp(
            np.random.default_rng(0).standard_normal((500, 3)) @ np.random.default_rng(1).standard_normal((3, 8))
        )
        plain = sparsect.OrderRecursiveMatchingPursuit()
        learned = [learn(ArraySource(X[:350]), 16, sparsity=2, coder=coder) for coder in (None, plain)]
        assert max(numbers["nonzeros"] for numbers in learned[0].rounds) > 2
        errors = [np.linalg.norm(sparsect.recover(each.Phi, X[350:], 2, "ormp").residual_norm) for each in learned]
        assert errors[0] < 0.9 * errors[1]

    def test_the_penalty_leaves_a_number_of_nonzeros(self, rng):
        signals, truth = planted(rng, 300, noise=0.3)
        online = Online(2)
        penalty = online.penalty(truth, signals)
        coder, codes, steps = online.shrunk(truth, penalty)
        shrunk = sparsect.recover(truth, signals, codes, coder, max_iter=steps, tol=0.0).x
        assert np.count_nonzero(shrunk) / 300 == pytest.approx(3.0, rel=0.1)

    def test_single_precision_and_scale(self, rng):
        signals, _ = planted(rng, 500, noise=0.1)
        single = learn(ArraySource(signals.astype(np.float32)), 20, sparsity=2, rounds=4)
        assert single.Phi.dtype == np.float32
        one, thousand = (learn(ArraySource(scale * signals), 20, sparsity=2, rounds=4).Phi for scale in (1.0, 1024.0))
        np.testing.assert_allclose(one, thousand, atol=1e-9)

    def test_where_signals_are(self, rng, monkeypatch):
        signals, _ = planted(rng, 1100, noise=0.1)
        expected = learn(ArraySource(signals), 20, sparsity=2, rounds=6)
        monkeypatch.setattr(online_module, "GPU_BATCH", online_module.BATCH)
        learned = learn(ArraySource(computed_where_they_are(signals, monkeypatch)), 20, sparsity=2, rounds=6)
        np.testing.assert_allclose(error(learned), error(expected), rtol=1e-6)
        np.testing.assert_allclose(to_numpy(learned.Phi), expected.Phi, atol=1e-6)

    def test_how_much_is_left(self, rng):
        signals, _ = planted(rng, 500, noise=0.1)
        for options in ({"sparsity": 2, "patience": 100}, {}):
            seen = []
            learned = learn(ArraySource(signals, 100), 20, rounds=9, progress=seen.append, **options)
            assert seen[-1].left == 0
            totals = {step.coded + step.left for step in seen}
            assert len(totals) == 1 or len(learned.rounds) < 9
            coded = [step.coded for step in seen]
            assert coded == sorted(coded)
        assert coded[-1] == 9 * 500

    def test_mini_batches_grow_with_the_memory(self, rng):
        signals, _ = planted(rng, 4000, noise=0.1)
        seen = []
        learned = learn(signals, 20, sparsity=2, rounds=10, patience=100, progress=seen.append)
        assert len({step.coded + step.left for step in seen}) == 1
        ends = np.unique([0] + [step.coded for step in seen if step.batch == step.batches])
        sizes = np.diff(ends)[:9] / procedures.STEPS
        # A sixth of the signals remembered after eight ninths of learning, 100 * 30 ** (8 / 9).
        assert sizes[0] == 256
        assert sizes[-1] == 343
        assert (np.diff(sizes) >= 0).all()
        assert learned.rounds[-2]["remembered"] <= 3000

    @pytest.mark.parametrize("options", [{"sparsity": 2}, {"sparsity": 2, "nonnegative_atoms": True}])
    def test_arrays_of_other_libraries(self, rng, options):
        strict = pytest.importorskip("array_api_strict")
        signals, _ = planted(rng, 500, noise=0.1)
        learned = learn(ArraySource(strict.asarray(signals)), 20, rounds=8, **options)
        assert type(learned.Phi) is type(strict.asarray(signals))
        expected = learn(ArraySource(signals), 20, rounds=8, **options)
        assert min(error(learned)) < 1.1 * min(error(expected))

    def test_nonnegative(self, rng):
        truth = unit(np.maximum(rng.standard_normal((12, 16)), 0)).T
        codes = np.where(rng.random((800, 12)) < 0.15, rng.random((800, 12)), 0)
        source = ArraySource(codes @ truth.T + 0.01 * rng.random((800, 16)))
        options = {"nonnegative_codes": True, "nonnegative_atoms": True}
        learned = learn(source, 12, sparsity=4, rounds=8, **options)
        assert learned.Phi.min() >= 0
        assert min(error(learned)) < 0.2
        with pytest.raises(InputError, match=r"signals` must have positive entries, for nonnegative atoms"):
            learn(ArraySource(-np.ones((50, 4))), 2, sparsity=1, **options)
        # Codes that may be negative take nonnegative atoms to negative signals.
        signals = codes @ truth.T
        mirrored = [learn(part, 12, sparsity=4, rounds=4, nonnegative_atoms=True) for part in (signals, -signals)]
        assert mirrored[1].Phi.min() >= 0
        np.testing.assert_allclose(error(mirrored[1]), error(mirrored[0]))

    def test_missing_entries(self, rng):
        signals, truth = planted(rng, 2000, 12, 14)
        signals[rng.random(signals.shape) < 0.15] = np.nan
        learned = learn(ArraySource(signals, missing="nan"), 14, sparsity=2, rounds=16)
        assert (np.abs(truth.T @ learned.Phi).max(axis=1) > 0.99).mean() > 0.8

    def test_errors(self, rng):
        source = ArraySource(planted(rng, 100, 8, 12)[0])
        for options, message in (
            ({"sparsity": 9}, r"sparsity` must be a whole number from 1 to 8, got 9"),
            ({"sparsity": 13}, r"sparsity` must be a whole number from 1 to 12, got 13"),
            ({"objective": "l0"}, r"sparsity` must be a whole number from 1 to 12, got None"),
            ({"objective": "l1"}, r"objective` must be one of"),
            ({"nonnegative_codes": True}, r"nonnegative_codes` must .*objective='l0'"),
            ({"sparsity": 2, "max_coherence": 1.5}, r"max_coherence` must be a number above 0"),
            ({"sparsity": 2, "patience": 0}, r"patience` must"),
            ({"sparsity": 2, "progress": 3}, r"progress` must be a function"),
            ({"sparsity": 2, "cluster": 3}, r"cluster` must be a .*Cluster, or None"),
            ({"sparsity": 2, "validation": np.zeros((5, 8))}, r"validation` must have signals that are not zero"),
            ({"sparsity": 2, "validation": np.ones((5, 7))}, r"validation` must have signals of 8 numbers"),
            (
                {"sparsity": 2, "nonnegative_codes": True, "coder": sparsect.LeastAngleRegression()},
                r"coder` must be one of auto, .*got 'lars', which does not take bounds, with nonnegative_codes",
            ),
            ({"sparsity": 2, "rounds": 3, "passes": 4}, r"passes` must be a whole number from 1 to 3, got 4"),
        ):
            with pytest.raises(InputError, match=message):
                learn(source, 12, **options)
        for signals, message in (
            (np.zeros((50, 8)), "signals` must not all be zero, got zeros only"),
            (np.full((50, 8), 1e200), r"signals` must .*got entries whose squares leave the range"),
            (np.where(np.eye(50, 8) > 0, np.nan, 1.0), r"signals` must .*8 entries that are NaN. Use missing='nan'"),
        ):
            with pytest.raises(InputError, match=message):
                learn(ArraySource(signals), 3, sparsity=2)
        with pytest.raises(InputError, match=r"source` must have 100 signals.*got batch 1 of 3 with 60 signals"):
            learn(Uneven(source), 12, sparsity=2)
        with pytest.raises(InputError, match=r"signals` must .*got infinite entries"):
            ArraySource(np.full((3, 3), np.inf), missing="nan")
        with pytest.raises(InputError, match=r"signals` must .*got only NaN in row"):
            ArraySource(np.full((3, 3), np.nan), missing="nan")
        with pytest.raises(InputError, match=r"signals` must .*got 9 entries that are NaN"):
            ArraySource(np.full((3, 3), np.nan))


class Uneven:
    """The signals of an array in three batches of different lengths."""

    batches, size, provenance = 3, 100, {}

    def __init__(self, source):
        self.signals = source.batch(0)

    def batch(self, index):
        return self.signals[(0, 10, 70)[index] : (10, 70, 100)[index]]


def test_most_signals_are_zero(rng):
    signals = np.zeros((2000, 16))
    signals[rng.choice(2000, 60, replace=False)] = rng.standard_normal((60, 16))
    learned = learn(ArraySource(signals), 10, sparsity=2, rounds=3)
    np.testing.assert_allclose(np.linalg.norm(learned.Phi, axis=0), 1)


def error(dictionary):
    return [numbers["validation_error"] for numbers in dictionary.rounds]


def test_signals_may_be_an_array(rng):
    signals = rng.standard_normal((300, 12))
    from_array = learn(signals, 15, sparsity=2, rounds=3, rng=1)
    from_source = learn(ArraySource(signals), 15, sparsity=2, rounds=3, rng=1)
    np.testing.assert_array_equal(from_array.Phi, from_source.Phi)
    with pytest.raises(InputError, match="signals` must"):
        learn("photographs", 15, sparsity=2)


class TestStore:
    def test_comes_back_as_it_was(self, rng, tmp_path):
        dictionary = Dictionary(rng.standard_normal((9, 12)), [{"error": 0.5}], {"seed": 3})
        dictionary.save(tmp_path / "mine.npz")
        back = load_dictionary(tmp_path / "mine.npz")
        np.testing.assert_array_equal(back.Phi, dictionary.Phi)
        assert (back.rounds, back.provenance, back.patch) == (dictionary.rounds, dictionary.provenance, 3)

    def test_a_plain_matrix_will_do(self, rng, tmp_path):
        Phi = rng.standard_normal((6, 8))
        np.save(tmp_path / "Phi.npy", Phi)
        dictionary = load_dictionary(tmp_path / "Phi.npy")
        np.testing.assert_array_equal(dictionary.Phi, Phi)
        with pytest.raises(InputError, match=r"dictionary` must .*square patches.*got atoms of 6 numbers"):
            dictionary.patch  # noqa: B018

    @pytest.mark.parametrize(
        ("arrays", "message"),
        [
            ({"x": np.ones(3)}, "it has no Phi"),
            ({"Phi": np.ones(3)}, r"got Phi of shape \(3,\)"),
            ({"Phi": np.array([["a"]])}, "must .*a matrix of float32 or float64"),
            ({"Phi": np.zeros((4, 2))}, "columns that are zero"),
            ({"Phi": np.full((4, 2), np.nan)}, "not finite"),
            ({"Phi": np.ones((4, 2)), "rounds": np.array("{")}, "damaged"),
            ({"Phi": np.ones((4, 2)), "rounds": np.array("5")}, "damaged"),
            ({"Phi": np.ones((4, 2)), "rounds": np.array("[1, 2]")}, "damaged"),
            ({"Phi": np.ones((4, 2)), "rounds": np.array('[{"error": "x"}]')}, "damaged"),
            ({"Phi": np.ones((4, 2)), "rounds": np.array('[{"error": 1}, {}]')}, "damaged"),
            ({"Phi": np.ones((4, 2)), "rounds": np.array("[" * 100_000)}, "damaged"),
            ({"Phi": np.ones((4, 2)), "provenance": np.array("[1]")}, "damaged"),
            ({"Phi": np.ones((4, 2), np.complex64)}, "must .*a matrix of float32 or float64"),
            ({"Phi": np.ones((4, 2)), "use": np.ones(3)}, "damaged"),
            ({"Phi": np.ones((4, 2)), "use": np.full(2, np.nan)}, "damaged"),
            ({"Phi": np.zeros((4, 2), np.float16)}, "columns that are zero"),
        ],
    )
    def test_other_files_are_refused(self, arrays, message, tmp_path):
        np.savez(tmp_path / "file.npz", **arrays)
        with pytest.raises(InputError, match=f"file.npz.*{message}"):
            load_dictionary(tmp_path / "file.npz")

    def test_is_pickled_without_its_factorisation(self, rng):
        dictionary = Dictionary(rng.standard_normal((30, 60)))
        dictionary.operator.pseudo_inverse  # noqa: B018
        copy = pickle.loads(pickle.dumps(dictionary))
        np.testing.assert_array_equal(copy.Phi, dictionary.Phi)
        assert "operator" not in copy.__dict__

    def test_half_precision(self, rng, tmp_path):
        Phi = rng.standard_normal((9, 12))
        Phi /= np.linalg.norm(Phi, axis=0)
        np.savez(tmp_path / "half.npz", Phi=Phi.astype(np.float16))
        back = load_dictionary(tmp_path / "half.npz").Phi
        assert back.dtype == np.float32
        np.testing.assert_allclose(back, Phi, atol=1e-3)
        np.testing.assert_allclose(np.linalg.norm(back, axis=0), 1, atol=1e-6)

    def test_bundled(self):
        found = list_dictionaries()
        assert list(found) == ["8x8", "12x12", "20x20", "paper"]
        for name, dictionary in found.items():
            assert load_dictionary(name) is dictionary
            assert dictionary.Phi.dtype == np.float32
            np.testing.assert_allclose(np.linalg.norm(dictionary.Phi, axis=0), 1, atol=1e-5)
            np.testing.assert_allclose(dictionary.Phi.sum(axis=0), 0, atol=0.01)
            assert dictionary.provenance["patches"] == 10_000_000
            assert "BSDS500" in dictionary.provenance["about"]
        assert [each.patch for each in found.values()] == [8, 12, 20, 20]
        assert sum(path.stat().st_size for path in DATA.glob("dictionary-*.npz")) < 6e6

    def test_sparsity_while_learning(self, rng, tmp_path):
        """It has an entry of its own; the dictionaries of the package and older files have it in the settings only."""
        assert [each.sparsity for each in list_dictionaries().values()] == [6, 14, 40, None]
        signals = rng.standard_normal((60, 9))
        learned = learn(signals, 12, sparsity=2, rounds=2)
        learned.save(tmp_path / "mine.npz")
        assert load_dictionary(tmp_path / "mine.npz").sparsity == learned.provenance["sparsity"] == 2
        assert learn(signals, 12, rounds=1).sparsity is None
        assert Dictionary(learned.Phi, provenance={"sparsity": 3, "online": "Online(sparsity=2)"}).sparsity == 3
        assert Dictionary(learned.Phi).sparsity is None

    def test_plot(self, rng):
        figure = list_dictionaries()["paper"].plot()
        assert [axes.get_title() for axes in figure.axes] == ["", "error of each round"]
        Phi = rng.standard_normal((48, 6))
        coloured = Dictionary(Phi, provenance={"colour": True}, usage=np.arange(6) / 6)
        assert coloured.patch == 4
        tiles = atom_tiles(coloured)
        assert tiles.shape[2] == 3
        # The atom used most comes first, its red pixels in the first channel.
        np.testing.assert_allclose(tiles[1:5, 1:5, 0], Phi[:16, 5].reshape(4, 4) / np.abs(Phi[:, 5]).max())
        flat, rough = np.outer(np.ones(16), [1.0]), (-1.0) ** np.arange(16)[:, None]
        grey = Dictionary(np.hstack([rough, flat]))
        np.testing.assert_allclose(atom_tiles(grey)[1:5, 1:5], 1)
        with pytest.raises(InputError, match=r"sort` must be 'frequency', got 'use' for a dictionary"):
            grey.plot("use")

    def test_whatever_stands_for_one(self, rng, tmp_path):
        Phi = rng.standard_normal((9, 12))
        np.save(tmp_path / "Phi.npy", Phi)
        for value in (Phi, Dictionary(Phi), tmp_path / "Phi.npy"):
            np.testing.assert_array_equal(as_dictionary(value).Phi, Phi)
        assert as_dictionary(None).Phi.shape == (400, 1000)

    @pytest.mark.parametrize("scale", [1e200, 1e-200])
    def test_atoms_out_of_range_are_refused(self, rng, scale):
        with pytest.raises(InputError, match=r"dictionary` must .*got columns that are zero or not finite"):
            as_dictionary(scale * rng.standard_normal((9, 12)))

    @pytest.mark.parametrize("path", [b"x", 3, [], np.eye(3)])
    def test_what_is_no_name_of_a_file(self, path):
        with pytest.raises(InputError, match=r"path` must .*the name of a file.*got an object of type .*"):
            load_dictionary(path)

    def test_atoms_are_drawn_from_whatever_stands_for_a_dictionary(self, rng, tmp_path):
        Phi = rng.standard_normal((9, 12))
        pictures = []
        for value in (Phi, Dictionary(Phi)):
            plots.atoms(value, tmp_path / "atoms.png")
            pictures.append((tmp_path / "atoms.png").read_bytes())
        assert pictures[0] == pictures[1]
        with pytest.raises(InputError, match=r"dictionary` must .*got atoms of 5 numbers"):
            plots.atoms(rng.standard_normal((5, 7)), tmp_path / "atoms.png")

    def test_a_broken_file_is_refused(self, tmp_path):
        (tmp_path / "file.npz").write_bytes(b"PK\x03\x04 and then nothing")
        with pytest.raises(InputError, match=r"file.npz: damaged"):
            load_dictionary(tmp_path / "file.npz")
