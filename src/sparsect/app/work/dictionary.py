"""Learning of a small dictionary, with its atoms after every round."""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np

from ...backend.arrays import Array
from ...dictionary import Dictionary, Progress, learn
from ...dictionary.pictures import atom_tiles
from ...images import PatchSource
from .. import work as messages
from ..pictures import png


@dataclass(frozen=True)
class Round:
    """The dictionary after a round.

    Attributes
    ----------
    dictionary : Dictionary
        The dictionary.
    tiles : bytes
        Its atoms, low frequencies first, as a PNG file.
    """

    dictionary: Dictionary
    tiles: bytes


@dataclass(frozen=True)
class Learned:
    """The end of learning.

    Attributes
    ----------
    file : bytes
        The dictionary as an ``.npz`` file.
    """

    file: bytes


def teach(
    send: messages.Sender,
    photographs: list[Array],
    atoms: int,
    patch: int,
    sparsity: int,
    rounds: int,
    patches: int,
    seed: int,
) -> None:
    """Learn a dictionary of patches.

    Parameters
    ----------
    send : callable
        Gets the messages.
    photographs : list of array, shape (height, width)
        The photographs, in grey.
    atoms : int
        Number of atoms.
    patch : int
        Side of a patch.
    sparsity : int
        Maximum number of nonzeros of a code.
    rounds : int
        Number of rounds.
    patches : int
        Number of patches.
    seed : int
        Seed.
    """
    shown = 0

    def watch(step: Progress) -> None:
        nonlocal shown
        done = len(step.dictionary.rounds)
        words = f"round {step.round} of {step.rounds}, {step.coded:,} patches coded"
        send(messages.Progress(words, step.coded / max(step.coded + step.left, 1)))
        if done > shown:
            shown = done
            send(Round(step.dictionary, tiles(step.dictionary)))

    source = PatchSource(photographs, patch, patches, rng=seed)
    found = learn(source, atoms, sparsity=sparsity, rounds=rounds, rng=seed, progress=watch)
    stream = io.BytesIO()
    np.savez(stream, allow_pickle=False, **found.arrays())
    send(Learned(stream.getvalue()))


def tiles(dictionary: Dictionary, sort: str = "frequency") -> bytes:
    """Draw all atoms.

    Parameters
    ----------
    dictionary : Dictionary
        The dictionary.
    sort : {'use', 'frequency'}, optional
        Which atoms come first.

    Returns
    -------
    bytes
        A PNG file.
    """
    return png((atom_tiles(dictionary, sort) + 1) / 2)
