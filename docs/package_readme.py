"""The README as a package index shows it: with absolute links, if pyproject.toml has the addresses of the files."""

import re
from pathlib import Path

from hatchling.metadata.plugin.interface import MetadataHookInterface


class PackageReadme(MetadataHookInterface):
    """Set the field ``readme`` of the package's metadata."""

    def update(self, metadata):
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        text = absolute(text, self.config["pages"], self.config["pictures"])
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def absolute(text, pages, pictures):
    """Put addresses before relative links to pages and pictures; an empty address leaves them as they are."""

    def link(found):
        mark, words, target = found.groups()
        return f"{mark}[{words}]({pictures if mark else pages}{target})"

    return re.sub(r"(!?)\[([^\]]*)\]\((?!https?:|#)([^)]+)\)", link, text)
