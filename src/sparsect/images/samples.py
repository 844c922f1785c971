"""Photographs to try things on: those that scikit-image brings along, nothing downloaded."""

from __future__ import annotations

from pathlib import Path

from ..backend.arrays import Array
from ..backend.checks import choice
from .files import read_image

FILES = {
    "chelsea": "chelsea.png",
    "coffee": "coffee.png",
    "astronaut": "astronaut.png",
    "rocket": "rocket.jpg",
    "camera": "camera.png",
}


def sample(name: str = "chelsea") -> Array:
    """A photograph by name: chelsea (a cat), coffee, astronaut, rocket, camera; values from 0 to 1."""
    import skimage

    return read_image(Path(skimage.__file__).parent / "data" / FILES[choice("name", name, FILES)])
