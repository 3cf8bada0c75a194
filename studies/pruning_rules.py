"""Compare rules that the paper's pruning leaves open, on validation rows.

    python studies/pruning_rules.py --data-dir DIR [--seeds 10 11 12 13] [--only 2 7 8] [--rules NAME ...]

Settings are those of tuning_table.py. A fifth of the training rows of the paper's split, stratified and another
one for each seed, is kept for validation; test rows take no part. Every rule gets the same random forests.
Printed: mean number of trees, accuracy and certified accuracy (L-inf) on validation rows.
"""

import argparse
from pathlib import Path
from typing import ClassVar
from unittest import mock

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import train_test_split

from certiforest.training import pruning
from tuning_table import SETTINGS, load, run

prune_forest = pruning.prune_forest


class RememberedForest(RandomForestClassifier):
    """Trains the same forest once for all rules."""

    forests: ClassVar[dict[tuple, list]] = {}

    def fit(self, X, y, sample_weight=None):
        """Fit, or remember; rules may ask for more trees than others in later partitions."""
        key = X.shape, X.sum(), self.random_state, self.n_estimators, self.max_depth
        if key not in self.forests:
            self.forests[key] = super().fit(X, y, sample_weight).estimators_
        self.estimators_ = self.forests[key]
        return self


def in_order_of_forest(forest, n_keep, *, preference, **options):
    return prune_forest(forest, n_keep, preference=np.zeros(len(forest)), **options)


def out_of_range(forest, n_keep, *, value_range, **options):
    return prune_forest(forest, n_keep, value_range=(value_range[0] - np.inf, value_range[1] + np.inf), **options)


def from_above(forest, n_keep, *, value_range, **options):
    """Prune the mirror image, in which above and below are exchanged."""
    low, high = value_range
    pruned = prune_forest([mirror(tree) for tree in forest], n_keep, value_range=(-high, -low), **options)
    return pruned._replace(trees=[mirror(tree) for tree in pruned.trees])


def mirror(tree):
    return tree._replace(threshold=-tree.threshold)


# what prunes, and in how many orders
RULES = {
    "order of the forest": (in_order_of_forest, 1),
    "most robust first": (prune_forest, 1),
    "8 orders": (prune_forest, 8),
    "32 orders": (prune_forest, 32),
    "32, overlaps from above": (from_above, 32),
    "32, out of range": (out_of_range, 32),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[10, 11, 12, 13])
    parser.add_argument("--only", type=int, nargs="+", default=[0, 1, 2, 6, 7, 8, 5, 11])
    parser.add_argument("--rules", choices=RULES, nargs="+", default=list(RULES))
    arguments = parser.parse_args()

    print("| setting | rule | trees per seed | accuracy | robust |\n|---|---|---|---|---|", flush=True)
    for setting in (SETTINGS[index] for index in arguments.only):
        X, _, y, _ = load(arguments.data_dir, setting.dataset)
        splits = [train_test_split(X, y, test_size=0.2, random_state=seed, stratify=y) for seed in arguments.seeds]
        for name in arguments.rules:
            prune, n_orders = RULES[name]
            runs = []
            with (
                mock.patch.object(pruning, "prune_forest", prune),
                mock.patch.object(pruning, "RandomForestClassifier", RememberedForest),
            ):
                for split, seed in zip(splits, arguments.seeds, strict=True):
                    runs.append(run(split, setting, seed, n_orders=n_orders))
            n_trees, accuracy, robust, _ = np.array(runs).T
            title = f"{setting.dataset} {setting.trees}x{setting.depth} {setting.eps:.3f}"
            reached = " ".join(f"{n:.0f}" for n in n_trees)
            print(f"| {title} | {name} | {reached} | {accuracy.mean():.3f} | {robust.mean():.3f} |", flush=True)
        RememberedForest.forests.clear()


if __name__ == "__main__":
    main()
