"""Check a built documentation: ``python docs/check_links.py FOLDER``.

Every link to another page, picture or section must lead somewhere, and no page may load anything from the network.
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# Tags whose addresses a browser loads by itself.
LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}


class Page(HTMLParser):
    """The links, the names of sections and the loaded addresses of a page.

    Parameters
    ----------
    path : Path
        The HTML file.
    """

    def __init__(self, path):
        super().__init__()
        self.links, self.names, self.loaded = [], set(), []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        given = {name: value or "" for name, value in attributes}
        self.names.update(given[name] for name in ("id", "name") if name in given)
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in LOADED and LOADED[tag] in given:
            self.loaded.append(given[LOADED[tag]])


def problems(root):
    """Yield a line for each link that leads nowhere, and for each address that is loaded from the network."""
    pages = {path.resolve(): Page(path) for path in sorted(root.rglob("*.html")) if "_static" not in path.parts}
    for path, page in pages.items():
        where = path.relative_to(root.resolve())
        for address in page.loaded:
            if urlsplit(address).netloc:
                yield f"{where}: loads {address}"
        for address in page.links + page.loaded:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                yield f"{where}: {address} does not exist"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].names:
                yield f"{where}: {address} has no such section"


def main():
    """Print what fails; the exit code is 1 if anything does."""
    lines = sorted(set(problems(Path(sys.argv[1]))))
    print("\n".join(lines) or "links: all lead somewhere")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
