"""The split of rows into training and test part, and what a model remembers of it.

Every table is split 70/30, stratified, with seed 7, which is the paper's protocol. Which rows are held out depends on
the whole table, so a model file keeps a digest of it: `TrainingRecord.check` refuses to tell the parts of another.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from certiforest.data.tables import Table
from certiforest.words import setting

PARTS = ("train", "test", "all")
TEST_SIZE, SPLIT_SEED = 0.3, 7
SPLIT_TEXT = f"{1 - TEST_SIZE:.0%} training, {TEST_SIZE:.0%} test, stratified, seed {SPLIT_SEED}"
BLOCK_ROWS = 4096


class SplitError(ValueError):
    """Rows cannot be split, or are not those that a model was trained on."""


def check_part(part: str) -> None:
    """Refuse what is none of `PARTS`, the parts of a table that may be asked for."""
    if part not in PARTS:
        raise SplitError(f"Expected {setting('part')} to be {' or '.join(PARTS)}, got {part!r}.")


def split_rows(y: NDArray) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the row indices of training and test part by the paper's protocol: 70/30, stratified, seed 7.

    The rows, and their order, are those of scikit-learn's ``train_test_split``, drawn without it: that takes a
    second to import, and which rows are held out must not depend on a version.
    """
    n_rows = len(y)
    n_test = math.ceil(TEST_SIZE * n_rows)
    _, place, sizes = np.unique(y, return_inverse=True, return_counts=True)
    if n_rows == 0 or sizes.min() < 2 or min(n_test, n_rows - n_test) < len(sizes):
        raise SplitError(
            "Expected at least two rows of every class, and enough to split, got"
            f" {n_rows} rows of {len(sizes)} classes. Is {setting('target')} the label? If so,"
            f" {setting('part', 'all')} keeps the table whole."
        )
    random = np.random.RandomState(SPLIT_SEED)
    n_train_of = _shares(sizes, n_rows - n_test, random)
    n_test_of = _shares(sizes - n_train_of, n_test, random)
    train, test = [], []
    rows_by_class = np.argsort(place, kind="stable")
    for rows, n_train, n_held_out in zip(
        np.split(rows_by_class, np.cumsum(sizes)[:-1]), n_train_of, n_test_of, strict=True
    ):
        drawn = rows[random.permutation(len(rows))]
        train.append(drawn[:n_train])
        test.append(drawn[n_train : n_train + n_held_out])
    return random.permutation(np.concatenate(train)), random.permutation(np.concatenate(test))


def _shares(sizes: NDArray[np.int64], n_rows: int, random: np.random.RandomState) -> NDArray[np.int64]:
    """Deal rows out to classes in proportion to their sizes; largest remainders first, equal ones by lot."""
    exact = sizes / sizes.sum() * n_rows
    shares = np.floor(exact)
    remainder = exact - shares
    missing = int(n_rows - shares.sum())
    for value in np.unique(remainder)[::-1]:
        if missing <= 0:
            break
        candidates = np.flatnonzero(remainder == value)
        lucky = random.choice(candidates, size=min(len(candidates), missing), replace=False)
        shares[lucky] += 1
        missing -= len(lucky)
    return shares.astype(np.int64)


def rows_of_part(table: Table, part: str, *, has_classes: bool = True) -> NDArray[np.int64]:
    """Return the row indices of a part of a table; numbers to learn are not stratified."""
    check_part(part)
    if part == "all":
        return np.arange(len(table))
    if table.y is None:
        raise SplitError(
            f"Expected labels to split the rows by, got none: name the label column by {setting('target')}."
        )
    train_rows, test_rows = split_rows(table.y if has_classes else np.zeros(len(table)))
    return train_rows if part == "train" else test_rows


@dataclass(frozen=True)
class TrainingRecord:
    """Which rows a model was trained on, as its file keeps it."""

    part: str  # of the table that was learned
    n_rows: int  # of the whole table
    sha256: str  # of the whole table: its features, in the order of the model, and its labels
    first_index: int | None = None  # which number the first column has, if it was a LIBSVM file

    @classmethod
    def of(cls, table: Table, part: str) -> TrainingRecord:
        """Return the record of a model that learns a part of a table."""
        return cls(part, len(table), digest(table), table.first_index)

    @classmethod
    def read(cls, entry: Mapping[str, Any] | None) -> TrainingRecord | None:
        """Return what a model file keeps; None if it keeps nothing."""
        if entry is None:
            return None
        known = dict(entry)
        if (
            set(known) != {"part", "n_rows", "sha256", "first_index"}
            or known["part"] not in PARTS
            or type(known["n_rows"]) is not int
            or type(known["sha256"]) is not str
            or known["first_index"] not in (None, 0, 1)
        ):
            raise SplitError('Expected "training" of the model file to tell part, n_rows, sha256 and first_index.')
        return cls(**known)

    def as_entry(self) -> dict[str, Any]:
        """Return the record as a model file keeps it."""
        return asdict(self)

    def check(self, table: Table, part: str) -> None:
        """Refuse a part of a whole table that is not the one learned from, or test rows that were learned."""
        held_out = "the rows that train --held-out wrote"
        if part == "test" and self.part != "train":
            raise SplitError(
                f"Expected a model that left the test part of {table.source} out, got one trained on"
                f" {'all rows' if self.part == 'all' else 'it'}. Give rows that it has not seen, with"
                f" {setting('part', 'all')}."
            )
        if (self.n_rows, self.sha256) != (len(table), digest(table)):
            raise SplitError(
                f"Expected the table that the model was trained on ({self.n_rows:,} rows), got another in"
                f" {table.source} ({len(table):,} rows), so that its {part} part may be a mixture. Give {held_out}, or"
                f" a table of other rows, with {setting('part', 'all')}."
            )


def digest(table: Table) -> str:
    """Return the SHA-256 of a table's rows and labels, the same whatever kind of file they come from."""
    found = hashlib.sha256(f"{table.X.shape}".encode())
    for start in range(0, len(table), BLOCK_ROWS):
        block = table.X[start : start + BLOCK_ROWS] + 0.0  # there is one zero
        found.update(np.ascontiguousarray(block, "<f8").tobytes())
    labels = None if table.y is None else table.y.tolist()
    found.update(json.dumps(labels).encode())
    return found.hexdigest()
