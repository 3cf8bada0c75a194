"""Results: what is known of statements and of measures, as they are handed out."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from certiforest.ensemble import TreeEnsemble
from certiforest.statements.kinds import Statement, StatementError
from certiforest.statements.proofs import save


@dataclass(frozen=True, repr=False)
class StatementResult:
    """What is known of a statement.

    Attributes
    ----------
    statement : Statement
    holds : bool or None
        None: neither proved nor refuted in time.
    pair : data frame or ndarray, or None
        Where it does not hold: one input, or two, that show it.
    bounds : (float, float)
        How far beyond what is stated inputs go, in sums of scores: what is proved to be the most (inf: nothing is), and
        what was reached. The statement holds if the first is below 0.
    seconds : float
    proof : dict, optional
        What shows it, as a certificate has it, if it was asked for: what is decided has one, but for `Robust` and
        differences of probabilities.
    method : {"proved", "refuted", "open"}
    """

    statement: Statement
    holds: bool | None
    pair: Any
    bounds: tuple[float, float]
    seconds: float
    proof: dict[str, Any] | None = None

    @property
    def method(self) -> str:
        """What became of the statement, in a word."""
        return {True: "proved", False: "refuted", None: "open"}[self.holds]

    def __str__(self) -> str:
        word = {True: "Holds", False: "Does not hold", None: "Not decided"}[self.holds]
        return f"{word}: {self.statement} ({self.seconds:.2g} s)"

    def __repr__(self) -> str:
        return f"{self}" if self.pair is None else f"{self}\n{self.pair}"


class Results(tuple[StatementResult, ...]):
    """The results of `check`, in the order of the statements."""

    header: dict[str, Any] | None = None  # of a certificate, if proofs were asked for
    model: TreeEnsemble | None = None  # whose file the auditor takes

    def with_header(self, header: dict[str, Any], model: TreeEnsemble) -> Results:
        """Return the results, to be saved as a certificate that begins so and is about a model."""
        self.header, self.model = header, model
        return self

    def save(self, path: str | os.PathLike[str], *, replace: bool = True) -> None:
        """Write what was proved and refuted to a certificate, which appears whole or not at all.

        `certiforest audit` checks it against the model file. Of a statement without a proof it says nothing.
        """
        if self.header is None:
            raise StatementError("Expected results with proofs, got none: call check(..., proof=True).")
        lines = [result.proof or {"statement": str(result.statement)} for result in self]
        save([self.header, *lines, {"end": len(lines)}], path, replace=replace)

    @property
    def holds(self) -> bool:
        """Whether all statements are proved."""
        return all(result.holds is True for result in self)

    def __str__(self) -> str:
        return "\n".join(map(str, self))

    __repr__ = __str__

    def to_frame(self) -> Any:
        """Return a data frame of pandas with a row for each statement."""
        import pandas as pd

        names = ("statement", "holds", "proved", "reached", "seconds")
        rows = [(str(r.statement), r.holds, *r.bounds, r.seconds) for r in self]
        return pd.DataFrame(rows, columns=list(names)).astype({"holds": object})

    def _repr_html_(self) -> str:
        return str(self.to_frame().to_html(index=False))


@dataclass(frozen=True, repr=False)
class Measured:
    """A quantity of a model.

    Attributes
    ----------
    bounds : pair of float
        What is proved and what was reached: for "range", those of the lowest score and, in the order reached, proved,
        those of the highest; else (reached, proved) of the most.
    pair : data frame or ndarray, or tuple of two of these
        The inputs that reach it; for "range", the lowest and the highest.
    seconds : float
    proof, header, model : optional
        What shows what is proved, as a certificate has it, what that begins with, and the model it is about, if it was
        asked for.
    """

    quantity: str
    bounds: Any
    pair: Any
    seconds: float
    proof: dict[str, Any] | None = None
    header: dict[str, Any] | None = None
    model: TreeEnsemble | None = None

    def save(self, path: str | os.PathLike[str], *, replace: bool = True) -> None:
        """Write what is proved to a certificate; see `Results.save`."""
        if self.header is None:
            raise StatementError("Expected a quantity with a proof, got none: call measure(..., proof=True).")
        save([self.header, self.proof or {"statement": str(self)}, {"end": 1}], path, replace=replace)

    def __str__(self) -> str:
        bounds = self.bounds
        if self.quantity == "range":
            bounds = (f"{bounds[0][1]:.6g} to {bounds[1][0]:.6g}", f"{bounds[0][0]:.6g} to {bounds[1][1]:.6g}")
        reached, proved = (end if isinstance(end, str) else f"{end:.6g}" for end in bounds)
        return f"{self.quantity}: {reached} reached, no more than {proved} proved ({self.seconds:.2g} s)"

    __repr__ = __str__
