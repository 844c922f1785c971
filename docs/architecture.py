"""Draw which floors of the package import from which, from its real imports: ``python docs/architecture.py``.

The floors are the layers of the contract in ``pyproject.toml`` that ``make lint`` checks.
"""

import sys
import tomllib
from collections import Counter
from html import escape
from pathlib import Path

import grimp

ROOT = Path(__file__).resolve().parents[1]
CELL, MARGIN, RADIUS = 38, 170, 15
PAPER, LINE, BOX, DOT, INK = "#ffffff", "#e3e7ec", "#1f4e79", "#e07b39", "#1b2733"


def floors():
    """Return the floors from top to bottom, and the number of imports from one to another by their names."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (contract,) = settings["tool"]["importlinter"]["contracts"]
    names = contract["layers"]
    graph = grimp.build_graph("sparsect")

    def floor(module):
        return next((name for name in names if module == name or module.startswith(name + ".")), None)

    pairs = ((one, other) for one in graph.modules for other in graph.find_modules_directly_imported_by(one))
    imports = Counter((floor(one), floor(other)) for one, other in pairs)
    sizes = Counter(floor(module) for module in graph.modules)
    return names, imports, sizes


def drawing():
    """Return the drawing as SVG: floors on the diagonal, and a dot to the right of a floor above each that it uses."""
    names, imports, sizes = floors()
    side = CELL * len(names)
    width, height = MARGIN + side + 20, side + 64
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        f'font-size="14"><title>Which floors of sparsect import from which</title>'
        f'<rect width="{width}" height="{height}" rx="8" fill="{PAPER}"/>'
    ]

    def centre(place):
        return 20 + CELL * place + CELL // 2

    used = {key: count for key, count in imports.items() if None not in key and key[0] != key[1]}
    for row, name in enumerate(names):
        x, y = MARGIN + centre(row) - 20, centre(row)
        last = max((names.index(other) for one, other in used if one == name), default=row)
        first = min((names.index(one) for one, other in used if other == name), default=row)
        parts.append(f'<path d="M{x} {y}H{MARGIN + centre(last) - 20}M{x} {y}V{centre(first)}" stroke="{LINE}"/>')
    for (one, other), count in used.items():
        row, column = names.index(one), names.index(other)
        radius = min(RADIUS, 3 + 1.6 * count**0.5)
        label = f"{short(one)} imports from {short(other)}: {count} {'time' if count == 1 else 'times'}"
        parts.append(
            f'<circle cx="{MARGIN + centre(column) - 20}" cy="{centre(row)}" r="{radius:.1f}" fill="{DOT}">'
            f"<title>{escape(label)}</title></circle>"
        )
    for row, name in enumerate(names):
        x, y = MARGIN + centre(row) - 20, centre(row)
        parts.append(
            f'<rect x="{x - 12}" y="{y - 10}" width="24" height="20" rx="3" fill="{BOX}"/>'
            f'<text x="{x}" y="{y + 4}" text-anchor="middle" fill="{PAPER}" font-size="12">{sizes[name]}</text>'
            f'<text x="{x - 19}" y="{y + 5}" text-anchor="end" fill="{INK}">{escape(short(name))}</text>'
        )
    explained = (
        "Floors and their numbers of modules. A dot in the row of a floor: it imports from the floor below the dot."
    )
    parts.append(f'<text x="20" y="{height - 18}" fill="{INK}" font-size="13">{explained}</text></svg>')
    return "\n".join(parts)


def short(name):
    """Return the name of a floor without that of the package."""
    return name.removeprefix("sparsect.")


def write(path):
    """Write the drawing to a file, unless it is there already as it should be."""
    text = drawing()
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


if __name__ == "__main__":
    write(Path(sys.argv[1] if len(sys.argv) > 1 else "architecture.svg"))
