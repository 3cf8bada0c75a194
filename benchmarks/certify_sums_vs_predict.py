"""What certifying sums of scores costs, compared with predicting with gradient-boosted trees.

Times `certify` on an ensemble of scores against scikit-learn's `HistGradientBoostingClassifier.predict` with as many
trees of the same depth on the same rows, one thread, best of several repeats, all in one run. The ensemble is boosted
here, each tree on features of its own, which gives it large spread for every attacker, or read from a file.

    python benchmarks/certify_sums_vs_predict.py --data-dir DIR      rows of MNIST, 2 against 6, from DIR/mnist.npz
    python benchmarks/certify_sums_vs_predict.py                     synthetic rows of the same shape
    ... --model FILE                                                 an ensemble of scores to certify
    ... --eps 0.3                                                    another budget
"""

import argparse

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.tree import DecisionTreeRegressor
from threadpoolctl import threadpool_limits

from certiforest import Attacker, Nodes, TreeEnsemble, as_ensemble, certify
from measuring import best_time, certify_unprepared, load_rows

N_TREES, DEPTH, LEARNING_RATE = 101, 6, 0.3


def boost_apart(X, y):
    """Boost trees on log-loss, each on features that no other one tests."""
    rng = np.random.default_rng(0)
    used = np.flatnonzero(np.ptp(X, axis=0) > 0)
    parts = np.array_split(rng.permutation(used), N_TREES)
    trees, scores, total = [], [], np.zeros(len(X))
    for part in parts:
        residual = y - 1 / (1 + np.exp(-total))
        tree = DecisionTreeRegressor(max_depth=DEPTH, random_state=0).fit(X[:, part], residual).tree_
        leaf = len(scores) + np.arange(tree.node_count)
        scores += (4 * LEARNING_RATE * tree.value[:, 0, 0]).tolist()
        total += 4 * LEARNING_RATE * tree.value[tree.apply(X[:, part].astype(np.float32)), 0, 0]
        feature = np.where(tree.feature >= 0, part[tree.feature], -1)
        trees.append(Nodes(tree.children_left, tree.children_right, feature, tree.threshold, leaf))
    return TreeEnsemble.from_trees(trees, n_features=X.shape[1], classes=[0, 1], scores=np.array(scores)[:, None])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir")
    parser.add_argument("--model")
    parser.add_argument("--eps", type=float, default=0.015)
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    X_train, X, y_train, y = load_rows(options.data_dir)
    ensemble = as_ensemble(options.model) if options.model else boost_apart(X_train, y_train)
    depth = int(ensemble.node_depth.max())
    with threadpool_limits(1):
        boosted = HistGradientBoostingClassifier(
            max_iter=ensemble.n_trees, max_depth=depth, max_leaf_nodes=2**depth, early_stopping=False, random_state=0
        ).fit(X_train, y_train)
        predict = best_time(lambda: boosted.predict(X), options.repeats)
    accuracy = np.mean(ensemble.predict(X) == y)
    print(f"{ensemble}, depth {depth}, {len(X)} rows, accuracy {accuracy:.4f}")
    print(f"HistGradientBoosting predict {predict * 1e3:7.1f} ms   accuracy {np.mean(boosted.predict(X) == y):.4f}")
    own = best_time(lambda: ensemble.predict(X), options.repeats)
    print(f"own predict                  {own * 1e3:7.1f} ms   ratio {own / predict:.2f}")
    first = best_time(lambda: certify_unprepared(ensemble, X, y, Attacker("linf", options.eps)), options.repeats)
    print(f"certify linf, the first time {first * 1e3:7.1f} ms   ratio {first / predict:.2f}")
    for norm in ("linf", "l2", "l1"):
        attacker = Attacker(norm, options.eps)
        took = best_time(lambda attacker=attacker: certify(ensemble, X, y, attacker), options.repeats)
        c = certify(ensemble, X, y, attacker)
        print(
            f"certify {norm:4} eps {options.eps:<6g}      {took * 1e3:7.1f} ms   ratio {took / predict:.2f}"
            f"   robust {c.robust_accuracy:.4f}   unknown {np.mean(c.stable == -1):.4f}"
        )


if __name__ == "__main__":
    main()
