"""Reading of numbers from text files, and rules for what is refused.

A file is a vector or a matrix with one row per line. A header line, and a first column that only numbers the lines, are
skipped where they are certainly not data; in doubtful cases the file is refused.
"""

from __future__ import annotations

import codecs
import csv
import re
from pathlib import Path

import numpy as np

from .arrays import BoolArray, FloatArray
from .checks import reject

SUFFIXES = (".csv", ".tsv", ".txt")
NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
WHOLE = re.compile(r"[+-]?\d+")
# A name starts with a letter, possibly after a bracket, and is not a usual spelling of a missing or boolean value.
NAME = re.compile(r"(?!(nan|na|n/a|null|none|inf|infinity|true|false)$)[(\[]?[^\W\d]", re.IGNORECASE)
# Names that pandas writes for an index: none or, after the file has been read and written again, this one.
UNNAMED = ("", "Unnamed: 0")
# Lower-case names of an index that has been read as a column and written again.
ONCE_AN_INDEX = ("", "unnamed: 0", "index", "x", "id")
# A comment begins a line or follows a space; spreadsheets write errors such as #N/A and #DIV/0! in cells.
COMMENT = re.compile(r"""("[^"]*")|(?:^|(?<=\s))#(?!N/A|DIV/0!|REF!|NUM!|VALUE!|NAME\?|NULL!).*""")
# The comma in 1,234 may mark decimals or thousands.
THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+")


def read(path: str) -> FloatArray:
    """Read the numbers in a text file.

    Numbers are separated by semicolons, tabs, commas or spaces and may be quoted. Between semicolons or tabs they may
    have decimal commas. Text after a ``#`` at the beginning of a line, or after a space, is a comment.

    - A header line of names is skipped, as is one that counts 0, 1, 2, ... above numbers that all have decimal points.
    - A first column that numbers the lines is skipped if the header has no name for it.
    - A line or column that counts is refused where it could be data as well.
    - Words, empty cells, NaN, and lines of different lengths are refused.

    Parameters
    ----------
    path : str
        The file to read.

    Returns
    -------
    numpy.ndarray
        Shape (columns,) for one line, (lines,) for one column, otherwise (lines, columns).

    Raises
    ------
    InputError
        If the file is refused. The message names the line and says how to write what is meant.
    """
    lines, empty = _lines(path)
    if not lines:
        raise reject(path, "no numbers", "have a line for each row")
    # The first line may be a header, whose names may contain any character.
    delimiter = _delimiter(lines[min(1, len(lines) - 1)][1])
    number, first = lines[0][0], _cells(lines[0][1], delimiter)
    names: list[str] | None = None
    if len(lines) > 1 and _are_names(first, lines, delimiter):
        names, lines = first, lines[1:]
    for gap in empty:
        if lines[0][0] < gap < lines[-1][0]:
            raise reject(f"{path}, line {gap}", "an empty line between numbers", "hold numbers")
    values, whole = _numbers(path, lines, delimiter)
    columns = values.shape[1]
    if len(lines) > 1 and (names is None or len(names) != columns) and _may_be_decimals(lines):
        got = "pairs of whole numbers that may be numbers with decimal commas"
        accepted = "have decimal points; pairs of numbers need a space after the comma, or a header with two names"
        raise reject(f"{path}, line {lines[0][0]}", got, accepted)
    if names is not None and (len(names) == columns - 1 or (names[0] in UNNAMED and len(names) == columns)):
        # A single line does not prove that the column numbers the lines, unless its name in the header is empty.
        counted = _counts_from(values[:, 0], whole[:, 0]) in (0, 1) and (len(values) > 1 or len(names) == columns)
        if not counted:
            got = "no name for the first column, which does not count the lines"
            raise reject(f"{path}, line {number}", got, "have a name for every column, or a first column 0, 1, 2, ...")
        values, whole, names = values[:, 1:], whole[:, 1:], names[1 - columns :]
        columns -= 1
    if names is not None and len(names) != columns and delimiter is not None:
        raise reject(
            f"{path}, line {number}", f"{len(names)} names for {columns} columns", "have a name for every column"
        )
    if names is None:
        if _is_header(values, whole):
            values, whole = values[1:], whole[1:]
        elif _is_doubtful(values, whole, at_least=2) or (columns == 1 and _is_lone_zero(values, whole)):
            shown = ", ".join(f"{value:.0f}" for value in values[0, :3]) + (", ..." if columns > 3 else "")
            got = f"{shown}, which may be column names or numbers"
            raise reject(
                f"{path}, line {number}", got, "be column names after a '#', or numbers with decimal points (0.0)"
            )
    if (names is None or names[0].lower() in ONCE_AN_INDEX) and _is_doubtful(values.T, whole.T, at_least=3):
        got = "numbers that count the lines, which may be an index or data"
        accepted = "have decimal points (0.0) if it holds data, and be removed or have an empty name if it is an index"
        raise reject(f"{path}, column 1", got, accepted)
    return _squeezed(values)


def _lines(path: str) -> tuple[list[tuple[int, str]], list[int]]:
    """Number and text of every line that holds more than a comment, and the numbers of empty lines."""
    content = Path(path).read_bytes()
    utf16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = content.decode("utf-16" if utf16 else "utf-8-sig")
    except UnicodeDecodeError:
        raise reject(path, "bytes that are not UTF-8", "text saved as UTF-8") from None
    lines: list[tuple[int, str]] = []
    empty = []
    for number, line in enumerate(re.split(r"\r\n|\r|\n", text), start=1):
        bare = COMMENT.sub(lambda found: found[1] or "", line) if "#" in line else line
        if bare.strip():
            lines.append((number, bare.rstrip() if bare != line else line))
        elif "#" not in line:
            empty.append(number)
    return lines, empty


def _delimiter(line: str) -> str | None:
    """Character that separates the cells of a line; None for spaces."""
    bare = re.sub(r'"[^"]*"', "", line)
    return next((mark for mark in ";\t," if mark in bare), None)


def _cells(line: str, delimiter: str | None) -> list[str]:
    """Split a line into cells without quotes and surrounding spaces."""
    if delimiter is None:
        return [quoted or plain for quoted, plain in re.findall(r'"([^"]*)"|([^\s"]+)', line)]
    if '"' in line:
        return [
            cell.strip() for cell in next(csv.reader([line], delimiter=delimiter, skipinitialspace=True, strict=True))
        ]
    return [cell.strip() for cell in line.split(delimiter)]


def _are_names(first: list[str], lines: list[tuple[int, str]], delimiter: str | None) -> bool:
    """Whether the first line cannot be data: it holds names, or alone is quoted, or counts and is one cell short."""
    if all(map(NAME.match, first)):
        return True
    # Names may be integers, such as years; other numbers are data, quoted or not.
    alone = lines[0][1].count('"') == 2 * len(first) and not any('"' in line for _, line in lines[1:])
    if alone and not any(NUMBER.fullmatch(cell) and not WHOLE.fullmatch(cell) for cell in first):
        return True
    rest = first[1:]
    counts = rest in ([str(start + place) for place in range(len(rest))] for start in (0, 1))
    if first[0] == "":
        return bool(rest) and (counts or all(map(NAME.match, rest)))
    if NAME.match(first[0]):
        return counts and len(rest) > 1
    return first == [str(place) for place in range(len(_cells(lines[1][1], delimiter)) - 1)]


def _numbers(path: str, lines: list[tuple[int, str]], delimiter: str | None) -> tuple[FloatArray, BoolArray]:
    """All cells as numbers, and whether each is written as an integer; both of shape (lines, columns)."""
    commas = delimiter in (";", "\t") and any("," in line for _, line in lines)
    rows: list[FloatArray] = []
    whole: list[list[bool]] = []
    ambiguous = commas
    for number, line in lines:
        cells = _cells(line, delimiter)
        if rows and len(cells) != len(rows[0]):
            got = f"{len(cells)} cells, and {len(rows[0])} in the lines before it"
            raise reject(f"{path}, line {number}", got, "have as many cells as the lines before")
        if commas:
            if "." in line:
                raise reject(
                    f"{path}, line {number}",
                    "decimal points and decimal commas",
                    "have either decimal points or decimal commas",
                )
            ambiguous = ambiguous and all(THOUSANDS.fullmatch(cell) for cell in cells if "," in cell)
        pointed = [cell.replace(",", ".") for cell in cells] if commas else cells
        for column, cell in enumerate(pointed):
            if not NUMBER.fullmatch(cell):
                got = repr(cells[column]) if cell else "an empty cell"
                raise reject(f"{path}, line {number}, column {column + 1}", got, "a finite number")
        rows.append(np.array(pointed, dtype=np.float64))
        whole.append([WHOLE.fullmatch(cell) is not None for cell in pointed])
        if not np.isfinite(rows[-1]).all():
            raise reject(f"{path}, line {number}", "a number beyond the range of float64", "hold finite numbers")
    if ambiguous:
        got = "numbers such as 1,234, whose commas may mark decimals or thousands"
        raise reject(f"{path}, line {lines[0][0]}", got, "have decimal points, or no marks for thousands")
    return np.array(rows), np.array(whole)


def _may_be_decimals(lines: list[tuple[int, str]]) -> bool:
    """Whether pairs of integers may be numbers with decimal commas: 1,5 below 0,27, but not zeros and ones."""
    pairs = [re.fullmatch(r"[+-]?(\d+),(\d+)", line.strip()) for _, line in lines]
    return all(pairs) and not all(pair and set(pair.groups()) <= {"0", "1"} for pair in pairs)


def _counts_from(values: FloatArray, whole: BoolArray) -> int | None:
    """First of integers that count up by one; None where they do not."""
    counts = whole.all() and bool((np.diff(values) == 1).all())
    return int(values[0]) if counts else None


def _is_header(values: FloatArray, whole: BoolArray) -> bool:
    """Whether the first line is 0, 1, 2, ... and all other lines have decimal points, as pandas writes floats.

    Two columns are too few to decide: 0,1 may be the start of a table of values against time.
    """
    return values.shape[1] > 2 and _counts_from(values[0], whole[0]) == 0 and len(values) > 1 and not whole[1:].any()


def _is_doubtful(values: FloatArray, whole: BoolArray, at_least: int) -> bool:
    """Whether the first row counts, as column names do, and could be data as well."""
    start, (rows, columns) = _counts_from(values[0], whole[0]), values.shape
    if start is None or rows == 1 or columns < 2:
        return False
    alone = not whole[1:].any()
    return columns >= (2 if alone else at_least) if start == 0 else columns > 2 and alone


def _is_lone_zero(values: FloatArray, whole: BoolArray) -> bool:
    """Whether a column starts with a 0, pandas's name of a single column, and has decimal points everywhere else."""
    return len(values) > 1 and bool(whole[0, 0]) and values[0, 0] == 0 and not whole[1:].any()


def _squeezed(values: FloatArray) -> FloatArray:
    """A matrix of one line or one column as a vector."""
    return values.ravel() if 1 in values.shape else values
