"""The text format of the verifier SILVA, which other verifiers read, too.

::

    classifier-forest 2                  two trees follow
    classifier-decision-tree 784 2       rows have 784 features, there are 2 classes
    0 1                                  labels of the classes
    SPLIT 400 0.0215686                  x[400] <= 0.0215686 goes left; subtrees follow in preorder
    LEAF 517 1594                        one weight per class: the heaviest wins, the first of them on ties
    LEAF 260 10
    classifier-decision-tree 784 2
    ...
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator

from certiforest.ensemble import ModelError, TreeEnsemble
from certiforest.ensemble.documents import sound
from certiforest.ensemble.numbers import NUMBER
from certiforest.files import write_atomically
from certiforest.words import cut

FOREST, TREE = "classifier-forest", "classifier-decision-tree"
SILVA_HEADERS = (FOREST.encode(), TREE.encode())


def parse_silva(content: bytes | str, *, source: str = "the text") -> TreeEnsemble:
    """Read an ensemble from SILVA text; ``source`` names it in errors."""
    with sound(source, ".silva model"):
        try:
            text = content.decode("ascii") if isinstance(content, bytes) else content
        except UnicodeDecodeError as error:
            raise ModelError(f"Expected ASCII text, got something else ({error}).") from None
        return _Parser(text).parse()


class _Parser:
    def __init__(self, text: str) -> None:
        self._lines: Iterator[str] = iter(text.splitlines())
        self._number = 0
        self.feature: list[int] = []
        self.threshold: list[float] = []
        self.leaf: list[int] = []

    def _next(self, expected: str) -> list[str]:
        for line in self._lines:
            self._number += 1
            if words := line.split():
                return words
        raise ModelError(f"Expected {expected}, got the end of the file: is it cut short?")

    def _fail(self, expected: str, words: list[str]) -> ModelError:
        return ModelError(f"Expected {expected} in line {self._number}, got {cut(' '.join(words), 60)!r}.")

    def _integers(self, line: list[str], part: slice, count: int, expected: str) -> list[int]:
        words = line[part]
        if len(words) != count or not all(len(w) < 10 and w.isascii() and w.isdecimal() for w in words):
            raise self._fail(expected, line)
        return [int(word) for word in words]

    def parse(self) -> TreeEnsemble:
        words = self._next(f"'{FOREST} <trees>'")
        n_trees = 1
        if words[0] == FOREST:
            (n_trees,) = self._integers(words, slice(1, None), 1, f"'{FOREST} <trees>'")
            words = self._next(f"'{TREE} <features> <classes>'")
        if n_trees < 1:
            raise ModelError("Expected at least one tree, got none.")
        shape: list[int] = []
        labels: list[str] = []
        for tree in range(n_trees):
            if tree > 0:
                words = self._next(f"'{TREE} <features> <classes>' of tree {tree}")
            if words[0] != TREE:
                raise self._fail(f"'{TREE} <features> <classes>'", words)
            own_shape = self._integers(words, slice(1, None), 2, f"'{TREE} <features> <classes>'")
            own_labels = self._next("the labels of the classes")
            if len(own_labels) != own_shape[1]:
                raise self._fail(f"{own_shape[1]} labels", own_labels)
            if tree == 0:
                shape, labels = own_shape, own_labels
            elif (shape, labels) != (own_shape, own_labels):
                raise self._fail("the same features, classes and labels in every tree", own_labels)
            self._parse_nodes(*own_shape)
        for line in self._lines:
            self._number += 1
            if line.strip():
                raise self._fail(f"the end of the file after {n_trees} trees", line.split())
        return TreeEnsemble(self.feature, self.threshold, self.leaf, n_features=shape[0], classes=_read_labels(labels))

    def _parse_nodes(self, n_features: int, n_classes: int) -> None:
        missing = 1
        while missing:
            words = self._next("SPLIT or LEAF")
            if words[0] == "SPLIT" and len(words) == 3:
                (f,) = self._integers(words, slice(1, 2), 1, "SPLIT <feature> <threshold>")
                v = self._number_in(words[2], words)
                if f >= n_features:
                    raise self._fail(f"a feature index below {n_features}", words)
                self.feature.append(f)
                self.threshold.append(v)
                self.leaf.append(-1)
                missing += 1
            elif words[0] == "LEAF" and len(words) == n_classes + 1:
                weights = [self._number_in(word, words) for word in words[1:]]
                self.feature.append(-1)
                self.threshold.append(0.0)
                self.leaf.append(weights.index(max(weights)))
                missing -= 1
            else:
                raise self._fail(f"'SPLIT <feature> <threshold>' or 'LEAF' with {n_classes} weights", words)

    def _number_in(self, word: str, words: list[str]) -> float:
        number = float(word) if NUMBER.fullmatch(word) else math.nan
        if not math.isfinite(number):
            raise self._fail("finite numbers", words)
        return number


def _read_labels(words: list[str]) -> list[int] | list[str]:
    """Labels are whole numbers where all of them are written as such, text otherwise."""
    try:
        numbers = [int(word) for word in words]
    except ValueError:
        return words
    return numbers if [str(number) for number in numbers] == words else words


def save_silva(ensemble: TreeEnsemble, path: str | os.PathLike[str]) -> None:
    """Write an ensemble as SILVA text, so that other verifiers can read it.

    Thresholds are written with as many digits as it takes to read back the same float64. A reader that keeps float32,
    as the published verifiers do, will round them. Where missing values go is not written.

    Parameters
    ----------
    ensemble : TreeEnsemble
        Trees that vote; its labels must not contain white space.
    path : path-like
        The file appears whole or not at all.
    """
    if ensemble.combine != "vote":
        raise ModelError("Expected trees that vote for a .silva file, got scores; save them with TreeEnsemble.save.")
    if ensemble.subset is not None:
        raise ModelError("Expected thresholds for a .silva file, got splits on categories.")
    ensemble = ensemble.of_numbers
    labels = [str(label) for label in ensemble.classes.tolist()]
    if any(label.split() != [label] for label in labels):
        raise ModelError(f"Expected labels without white space for a .silva file, got {labels}.")
    lines = [f"{FOREST} {ensemble.n_trees}"]
    header = [f"{TREE} {ensemble.n_features} {ensemble.n_classes}", " ".join(labels)]
    one_hot = [" ".join("1" if c == k else "0" for c in range(ensemble.n_classes)) for k in range(ensemble.n_classes)]
    starts = set(ensemble.tree_start.tolist())
    columns = ensemble.feature.tolist(), ensemble.threshold.tolist(), ensemble.leaf.tolist()
    for node, (f, v, c) in enumerate(zip(*columns, strict=True)):
        if node in starts:
            lines += header
        lines.append(f"SPLIT {f} {v!r}" if f >= 0 else f"LEAF {one_hot[c]}")
    write_atomically(path, "\n".join(lines) + "\n")
