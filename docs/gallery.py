"""How the gallery shows the examples: in which order, which of them are run, and with which pictures."""

import importlib.util
import shutil
from pathlib import Path

from sphinx_gallery.scrapers import figure_rst

# The examples in the order in which they are worth reading; others follow, by name.
ORDER = (
    "first_recovery",
    "wandering",
    "phase_transition",
    "unknown_sparsity",
    "nonnegative",
    "joint_supports",
    "own_set",
    "matrix_free",
    "regression_path",
    "pipeline",
    "source_imaging",
    "diffusion",
    "atoms",
    "denoise",
    "inpaint",
    "torch_gpu",
)


def order(name):
    """Return the key by which examples are sorted: their places in ORDER, then their names."""
    stem = Path(name).stem
    return (ORDER.index(stem) if stem in ORDER else len(ORDER), stem)


def runs():
    """Return a pattern for the examples that can be run here; the others are shown without pictures."""
    missing = [] if importlib.util.find_spec("pylops") else ["matrix_free"]
    if not has_gpu():
        missing.append("torch_gpu")
    return "".join(rf"(?<!{name})" for name in missing) + r"\.py$"


def has_gpu():
    """Return whether torch is installed and finds a GPU."""
    if not importlib.util.find_spec("torch"):
        return False
    import torch

    return torch.cuda.is_available()


def written_pictures(block, block_vars, gallery_conf):
    """Show the PNG files that an example has written to the folder in which it runs."""
    shown = []
    for picture in sorted(Path(block_vars["src_file"]).parent.glob("*.png")):
        shown.append(next(block_vars["image_path_iterator"]))
        shutil.move(picture, shown[-1])
    return figure_rst(shown, gallery_conf["src_dir"])
