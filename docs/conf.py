"""Settings of the documentation: ``make docs`` builds it from the root of the repository, offline.

The source folder is the repository itself, so that links between Markdown files, results of benchmarks and examples
are the same here as on a Git host.
"""

import os
import re
import shutil
import sys
import warnings
from pathlib import Path

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
sys.path.insert(0, str(DOCS))

import architecture  # noqa: E402
import gallery  # noqa: E402

import sparsect  # noqa: E402

project = "sparsect"
author = "The sparsect developers"
copyright = author
version = release = sparsect.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_gallery.gen_gallery",
]
root_doc = "docs/index"
include_patterns = ["docs/**", "benchmarks/**.md", "CONTRIBUTING.md", "CHANGELOG.md"]
exclude_patterns = ["docs/_*", "docs/gallery/*.py", "docs/gallery/*.ipynb", "docs/gallery/searchindex*"]

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
autodoc_default_options = {"members": True, "inherited-members": True}

sphinx_gallery_conf = {
    "examples_dirs": [str(ROOT / "examples")],
    "gallery_dirs": ["docs/gallery"],
    "filename_pattern": gallery.runs(),
    "within_subsection_order": "gallery.order",
    "image_scrapers": ("matplotlib", "gallery.written_pictures"),
    "doc_module": ("sparsect",),
    "backreferences_dir": "docs/gallery/uses",
    "reference_url": {"sparsect": None},
    "download_all_examples": False,
    "show_signature": False,
    "write_computation_times": False,
    "plot_gallery": os.environ.get("SPARSECT_EXAMPLES", "1") != "0",
    "remove_config_comments": True,
    "copyfile_regex": r".*\.rst",
}

html_theme = "pydata_sphinx_theme"
html_title = f"sparsect {release}"
html_static_path = ["_static"]
html_css_files = ["layout.css"]
html_extra_path = ["extra"]
html_show_sourcelink = False
html_sidebars = {"docs/start": [], "docs/index": []}
html_theme_options = {
    "navbar_end": ["theme-switcher"],
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_nav_level": 1,
}
# Absolute, because autosummary and the theme look for it from different folders.
templates_path = [str(DOCS / "_templates")]


def setup(app):
    """Draw the architecture before the pages are read, and put the report beside them afterwards."""
    # Tests and examples cut runs short; a page is no place for such a warning.
    warnings.filterwarnings("ignore", category=sparsect.ConvergenceWarning)
    app.connect("builder-inited", lambda app: architecture.write(DOCS / "developers" / "architecture.svg"))
    app.connect("source-read", list_other_pages)
    app.connect("autodoc-skip-member", skip_inherited)
    app.connect("build-finished", copy_report)


def list_other_pages(app, name, source):
    """Put the pages that no list of pages names at the end of the guide."""
    if name == "docs/guide":
        lists = "".join((DOCS / page).read_text() for page in ("index.md", "guide.md", "developers/index.md"))
        pages = sorted(page.stem for page in DOCS.glob("*.md"))
        others = [page for page in pages if page != "index" and not re.search(rf"^[./]*{page}$", lists, re.MULTILINE)]
        source[0] = source[0].rstrip().removesuffix("```") + "\n".join([*others, "```"]) + "\n"


def skip_inherited(app, what, name, member, skip, options):
    """Leave out what scikit-learn's classes bring along; it is explained there."""
    return True if str(getattr(member, "__module__", "")).startswith("sklearn.") else None


def copy_report(app, failed):
    """Copy the report on the paper's experiments, which is a page of its own."""
    if not failed and app.builder.format == "html":
        shutil.copytree(DOCS / "report", Path(app.outdir) / "docs" / "report", dirs_exist_ok=True)
