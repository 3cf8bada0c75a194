"""certify: the one front door to verdicts."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from typing import Any

from certiforest.attack.attacker import Attacker
from certiforest.certificates import Certificates
from certiforest.certifier import Certifier


def certify(
    model: Any,
    X: Any,
    y: Any = None,
    attacker: Attacker | None = None,
    *,
    radius: bool = False,
    witness: bool = False,
    proof: bool = False,
    tolerance: float | None = None,
    outputs: bool = False,
    attacked: Iterable[Any] | None = None,
    require_exact: bool = False,
    margin: float = 0.0,
    time_limit: float = 1.0,
    total_time_limit: float = math.inf,
    n_jobs: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Certificates:
    """Prove, row by row, whether an attacker can change the prediction.

    Parameters
    ----------
    model : TreeEnsemble, fitted model or path
        Anything that `as_ensemble` takes.
    X : array-like or data frame of shape (n, n_features)
        Rows to attack, finite numbers.
    y : array-like of shape (n,), optional
        True labels. Without them there are predictions and stability, but no verdicts.
    attacker : Attacker
        What the rows are attacked with.
    radius : bool, default=False
        Also find the smallest eps at which each row is unstable.
    witness : bool, default=False
        Also give, for each unstable row, a changed row that is predicted otherwise.
    proof : bool, default=False
        Also keep, for each stable row, a proof that anyone can check, and what else `Certificates.save` needs. A row
        that is stable but not proved in time stays stable and has no proof.
    tolerance : float, optional
        For a regressor, of which there are ``low`` and ``high``, the range of what it says in reach of each row: how
        far from the prediction that may be while the row is stable. A prediction this near to ``y`` is right.
    outputs : bool, default=False
        For a classifier of two classes: give that range of the probability of the second class, too.
    attacked : list of labels, optional
        Only rows of these classes (by ``y``, or by prediction where it is not given) are attacked; others are stable,
        since nobody moves them. All rows are attacked if not given.
    require_exact : bool, default=False
        Raise unless the ensemble has large spread for the attacker, which rules out trees that meet.
    margin : float, default=0.0
        For scores that add up: say stable, or unstable, only where what decides (the sum of a single output, or the
        difference of two classes' sums) is further than this from zero, else UNKNOWN. With
        ``ensemble.rounding_bound(np.float32)``, what is said holds for a deployment that adds up in float32, too.
    time_limit : float, default=1.0
        Seconds for one question about a row, its verdict or its radius, where that is NP-hard: trees meet at the row,
        or scores add up in a norm other than L-inf. A row that takes longer is UNKNOWN; a radius that does is known
        within bounds. With 0, a row gets one attempt at a proof for each rival. A vote that rounding alone leaves open,
        and the witness of an unstable row, get at least a second.
    total_time_limit : float, default=inf
        Seconds for all questions together; after them each row is treated as with ``time_limit=0``. Verdicts of all
        rows come first, radii after.
    n_jobs : int, optional
        Number of threads; None means 1 and -1 all cores.
    progress : callable, optional
        Called with the number of rows done since the last call.

    Returns
    -------
    Certificates
        One entry per row: prediction, stable, verdict, and what else was asked for.

    Raises
    ------
    SpreadError
        If ``require_exact`` and the spread is too small.

    Notes
    -----
    Verdicts are exact for the float64 numbers given: no tolerance, no sampling. Where two trees meet, that is, both
    have a split in reach on one feature, the question is NP-hard: message passing proves nearly every such row or
    leads to an attack, cutting what is in reach into parts decides the others, and what is not decided in time is
    UNKNOWN. `has_large_spread` tells when that cannot happen.

    Ctrl-C (KeyboardInterrupt) ends the work early: rows that are not decided yet are UNKNOWN, and
    ``is_interrupted`` is set.

    Examples
    --------
    >>> from certiforest import Attacker, TreeEnsemble, certify
    >>> stump = TreeEnsemble([0, -1, -1], [0.5, 0, 0], [-1, 0, 1], n_features=1, classes=[0, 1])
    >>> c = certify(stump, [[0.2], [0.45]], [0, 0], Attacker("linf", 0.1), radius=True, witness=True)
    >>> [v.name for v in c.verdict]
    ['ROBUST', 'FRAGILE']
    >>> c.radius.round(3), c.witness.round(3)
    (array([0.3 , 0.05]), array([[nan], [0.5]]))
    """
    if isinstance(y, Attacker) and attacker is None:
        raise TypeError(
            "Expected labels, or None, as third argument, got an Attacker: name it, attacker=Attacker(...)."
        )
    certifier = Certifier(
        model,
        attacker,  # type: ignore[arg-type]  # whoever gives none is told so
        radius=radius,
        witness=witness,
        proof=proof,
        tolerance=tolerance,
        outputs=outputs,
        attacked=attacked,
        require_exact=require_exact,
        margin=margin,
        time_limit=time_limit,
        n_jobs=n_jobs,
    )
    dask = sys.modules.get("dask")
    if dask is not None and dask.is_dask_collection(X):
        from certiforest.dask_rows import certify_lazily

        return certify_lazily(certifier, X, y, total_time_limit, progress)  # type: ignore[return-value]
    return certifier.certify(X, y, total_time_limit=total_time_limit, progress=progress)
