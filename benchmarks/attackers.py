"""What a one-way attacker and one of whole numbers cost, compared with the plain one, on the same rows in one run.

    python benchmarks/attackers.py --data-dir DIR      MNIST 2 against 6, from DIR/mnist.npz, pixels as whole numbers
    python benchmarks/attackers.py                     synthetic rows of the same shape

A forest with large spread, 101 trees of depth 6, eps 4 of 256 grey levels; and 500 boosted trees of 31 leaves by
scikit-learn, eps 1 on synthetic rows of whole numbers. One thread, CPU seconds, best of several repeats.
"""

import argparse

import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier

from certiforest import Attacker, LargeSpreadForestClassifier, as_ensemble, certify
from measuring import best_time, load_rows


def questions(data_dir):
    """Yield a name, an ensemble, rows and labels, and a budget."""
    X_train, X, y_train, y = load_rows(data_dir)
    X_train, X = np.rint(255 * X_train), np.rint(255 * X)
    forest = LargeSpreadForestClassifier(n_estimators=101, max_depth=6, eps=4, random_state=0).fit(X_train, y_train)
    yield "large spread, 101 x 6", forest.ensemble_, X, y, 4
    X, y = make_classification(20_000, 80, n_informative=20, random_state=0)
    X = np.rint(20 * X)
    boosted = HistGradientBoostingClassifier(max_iter=500, early_stopping=False, random_state=0)
    yield "boosted, 500 trees", as_ensemble(boosted.fit(X[:14_000], y[:14_000])), X[14_000:], y[14_000:], 1


def compare(name, ensemble, X, y, eps, norm, repeats):
    plain = None
    for kind, more in {"plain": {}, "up only": {"direction": "up"}, "whole": {"integer": range(X.shape[1])}}.items():
        attacker = Attacker(norm, eps, **more)
        found = certify(ensemble, X, y, attacker)
        seconds = best_time(lambda attacker=attacker: certify(ensemble, X, y, attacker), repeats)
        plain = plain or seconds
        print(
            f"{name}, norm {norm}, {kind:>7}: {seconds * 1e3:7.1f} ms, over plain {seconds / plain:.2f};"
            f" robust {found.robust_accuracy:.4f}, {int((found.stable == -1).sum())} unknown"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir")
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    for question in questions(options.data_dir):
        for norm in ("inf", 2, 1):
            compare(*question, norm, options.repeats)


if __name__ == "__main__":
    main()
