"""Sample photographs, taken from the installed scikit-image without a download."""

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
    """Load a sample photograph.

    Parameters
    ----------
    name : {'chelsea', 'coffee', 'astronaut', 'rocket', 'camera'}, optional
        Name of the photograph; 'chelsea' is a cat, and 'camera' is a grey image.

    Returns
    -------
    array, shape (height, width) or (height, width, 3)
        The photograph, float32, with values from 0 to 1.

    Examples
    --------
    >>> import sparsect
    >>> sparsect.images.sample("chelsea").shape
    (300, 451, 3)
    >>> sparsect.images.sample("camera").shape
    (512, 512)
    """
    import skimage

    return read_image(Path(skimage.__file__).parent / "data" / FILES[choice("name", name, FILES)])
