"""Regressors trained for the worst case, beside scikit-learn's and the constant one; ranges by `certify`.

python studies/robust_regression.py [--norm inf] [--eps 0.02 0.05] [--folds 5] [--only WORD ...]

Diabetes (442 rows, columns scaled to [0, 1] by the training rows) and Friedman's first function (made: 3,000 rows, 10
columns, noise of 1). The worst error of a row is that of the farther end of its range; all settings by default.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
from sklearn.datasets import load_diabetes, make_friedman1
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.model_selection import KFold
from sklearn.preprocessing import MinMaxScaler

from certiforest import Attacker, LargeSpreadAdditiveRegressor, RobustBoostingRegressor, certify

PLAIN = {
    "constant, mean": DummyRegressor(),
    "constant, median": DummyRegressor(strategy="median"),
    "HistGB": HistGradientBoostingRegressor(random_state=0),
    "HistGB, 50 of depth 4": HistGradientBoostingRegressor(max_iter=50, max_depth=4, random_state=0),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--norm", default="inf")
    parser.add_argument("--eps", nargs="+", type=float, default=[0.02, 0.05])
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--only", nargs="+", default=[""], help="parts of names of models")
    options = parser.parse_args()
    print("data       eps  model                       MSE     MAE  worst MSE  worst MAE  exact  train s  certify s")
    tables = {"diabetes": load_diabetes(return_X_y=True), "friedman": make_friedman1(3000, noise=1.0, random_state=0)}
    for name, (X, y) in tables.items():
        for eps in options.eps:
            attacker = Attacker(options.norm, eps)
            robust = {
                f"{word}, {loss}": make(attacker=attacker, loss=loss, random_state=0)
                for word, make in (("robust", RobustBoostingRegressor), ("additive", LargeSpreadAdditiveRegressor))
                for loss in ("squared_error", "absolute_error")
            }
            for kind, model in {**PLAIN, **robust}.items():
                if not any(word in kind for word in options.only):
                    continue
                folds = []
                for train, test in KFold(options.folds, shuffle=True, random_state=0).split(X):
                    scaler = MinMaxScaler().fit(X[train])
                    start = time.process_time()
                    model.fit(scaler.transform(X[train]), y[train])
                    trained = time.process_time()
                    rows = scaler.transform(X[test])
                    said = model.predict(rows)
                    low, high, is_exact = said, said, np.ones(len(rows))
                    if "constant" not in kind:
                        found = certify(model, rows, y[test], attacker, tolerance=0.0)
                        low, high, is_exact = found.low, found.high, found.range_is_exact
                    error, worst = np.abs(said - y[test]), np.maximum(high - y[test], y[test] - low)
                    errors = [np.mean(of**power) for of in (error, worst) for power in (2, 1)]
                    folds.append([*errors, np.mean(is_exact), trained - start, time.process_time() - trained])
                shown = "{:8.4g}{:8.4g}{:11.4g}{:11.4g}{:7.3f}{:9.1f}{:11.1f}".format(*np.mean(folds, axis=0))
                print(f"{name:10}{eps:5}  {kind:24}{shown}", flush=True)


if __name__ == "__main__":
    main()
