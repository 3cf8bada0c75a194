"""Attackers that can only add: models trained for moves both ways and for moves up, certified against moves up.

python studies/one_way.py DIR [--data clamp spambase] [--seeds 0] [--rows N]

DIR holds ClaMP_Integrated-5184.csv (headers of executables; its text column is left out) and spambase.csv. Units are a
tenth of a column's range in the training rows, 70 % of a shuffle; eps is in these units, in L-inf. On ClaMP whole
columns stay whole. Only malware, or spam, is attacked, and every witness is checked: whole, upwards, inside reach,
predicted otherwise by the estimator itself.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import pandas

from certiforest import Attacker, LargeSpreadBoostingClassifier, LargeSpreadForestClassifier, certify

EPS = {"clamp": (0.2, 1.0), "spambase": (0.2, 1.0)}


def load(folder: Path, name: str):
    if name == "clamp":
        table = pandas.read_csv(folder / "ClaMP_Integrated-5184.csv").select_dtypes("number")
        return table.drop(columns="class"), table["class"].to_numpy()
    table = pandas.read_csv(folder / "spambase.csv", header=None)
    return table.iloc[:, :-1].rename(columns=str), table.iloc[:, -1].to_numpy().astype(int)


def check(X, found, model, whole, eps_by_column) -> None:
    broken = found.stable == 0
    z, x = found.witness[broken], X.to_numpy()[broken]
    assert (z >= x).all()
    assert (z[:, whole] == np.floor(z[:, whole])).all()
    assert (z - x <= eps_by_column * (1 + 1e-12)).all()
    assert not broken.any() or (model.predict(pandas.DataFrame(z, columns=X.columns)) != found.prediction[broken]).all()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--data", nargs="+", default=list(EPS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--rows", type=int, default=None, help="test rows; all if not given")
    options = parser.parse_args()
    print(
        "data      eps  seed  model     trained   accuracy  robust  recall  robust recall  unknown  train s  certify s"
    )
    for name in options.data:
        X, y = load(options.folder, name)
        for seed in options.seeds:
            order = np.random.default_rng(seed).permutation(len(X))
            n_train = int(0.7 * len(X))
            train, test = order[:n_train], order[n_train:][: options.rows]
            width = np.ptp(X.iloc[train].to_numpy(), axis=0)
            scale = np.where(width > 0, width, 1.0) / 10
            whole = np.flatnonzero([(X[column] % 1 == 0).all() for column in X.columns]) if name == "clamp" else []
            for eps in EPS[name]:
                attacker = Attacker("linf", eps, scale=scale, direction="up", integer=[int(f) for f in whole])
                for kind in ("forest", "boosting"):
                    for direction in (None, "up"):
                        common = {"eps": eps, "scale": scale, "direction": direction, "random_state": seed}
                        if kind == "forest":
                            model = LargeSpreadForestClassifier(51, 6, **common)
                        else:
                            model = LargeSpreadBoostingClassifier(**common)
                        begin = time.perf_counter()
                        model.fit(X.iloc[train], y[train])
                        trained = time.perf_counter() - begin
                        begin = time.perf_counter()
                        found = certify(model, X.iloc[test], y[test], attacker, witness=True, attacked=[1])
                        check(X.iloc[test], found, model, whole, eps * scale)
                        shares = found.accuracy, found.robust_accuracy, found.recall[1], found.robust_recall[1]
                        words = "".join(f"{share:10.3f}" for share in (*shares, np.mean(found.stable == -1)))
                        seconds = f"{trained:9.1f}{time.perf_counter() - begin:11.1f}"
                        print(
                            f"{name:9} {eps:.1f} {seed:5}  {kind:9} {direction or 'both':7}{words}{seconds}", flush=True
                        )


if __name__ == "__main__":
    main()
