"""An evidence sheet: what was computed about a model, for whom, from what, and how it can be checked again.

It is laid out along the headings that those who assess systems use. It claims nothing beyond what was computed.
"""

from __future__ import annotations

import hashlib
import math
from pathlib import Path
from typing import Any

from certiforest.report.attackers import attack_in_words, attacker_facts, units_in_words
from certiforest.report.certified import REALITY, class_table, origin_facts, verdict_table
from certiforest.report.headline import headline
from certiforest.report.sections import Facts, Page, Section, Words
from certiforest.words import counted, listed

CONFIDENCE = 0.95
PROGRAM = Path(__file__).parents[1] / "audit.py"
PURPOSE = (
    "This sheet says what a program computed about a model, for those who assess it. It does not say that any law,"
    " standard or requirement is met."
)
NOT_EXAMINED = (
    "Not examined: how rows were collected and labelled, attacks on training, drift, fairness between groups, privacy,"
    " the system around the model, and attackers who can do more than is written here."
)


def certificate_facts(path: Path) -> dict[str, str]:
    """Return name and SHA-256 of a file of proofs."""
    with open(path, "rb") as file:
        return {"file": path.name, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def evidence_page(findings: dict[str, Any]) -> Page:
    """Return the sheet; what proofs there are stands in ``findings["certificate"]``."""
    data, attacker, stability = findings["data"], findings["attacker"], findings["stability"]
    n_rows, unit = data["n_rows"], units_in_words(attacker, data["scaled"])
    accuracy = ["No labels were given: accuracy is not known, and shares below are of rows whose prediction stays."]
    if findings["verdicts"] is not None and n_rows:
        accuracy = [f"Without an attacker, {findings['accuracy']:.2%} of {counted(n_rows, 'row')} are predicted right."]
        if findings["tolerance"] is not None:
            accuracy.append(f"A prediction is right that is within {findings['tolerance']:g} of the true value.")
        if findings["by_class"]:
            largest = max(entry["n_rows"] for entry in findings["by_class"]) / n_rows
            accuracy.append(f"Always saying the most frequent class would be right for {largest:.2%}.")
    robustness = [headline(findings), f"The attacker may change {attack_in_words(attacker)}.{unit}"]
    if findings["attacked"] is not None:
        robustness.append(f"Only rows of {listed(findings['attacked'])} are attacked; the others are as they are.")
    methods = ", ".join(f"{count:,} {method}" for method, count in findings["roads"].items())
    budget = [("Norm, eps", f"L{attacker['norm']}, {attacker['eps']!r}")] if "norm" in attacker else []
    return Page(
        f"Evidence on the robustness of {findings['model']['name']}",
        [
            Words(PURPOSE, is_soft=True),
            Section("Accuracy", [*map(Words, accuracy), class_table(findings)]),
            Section(
                "Robustness",
                [
                    *map(Words, filter(None, robustness)),
                    verdict_table(findings),
                    Facts([*budget, *attacker_facts(attacker), ("How rows were decided", methods)]),
                ],
            ),
            Section("Limits", list(map(Words, _limits(findings, stability["unknown"])))),
            Section("Known gaps", list(map(Words, _gaps(findings)))),
            Section("Who can check this again, and how", list(map(Words, _checks(findings)))),
            Section("Where this comes from", [Facts(origin_facts(findings))]),
        ],
    )


def _limits(findings: dict[str, Any], n_open: int) -> list[str]:
    n_rows = findings["data"]["n_rows"]
    words = [
        f"What is proved holds for {counted(n_rows, 'row')} of {findings['data']['name']} and for this attacker,"
        " exactly: no tolerance, no trial of attacks. It says nothing of other rows or attackers by itself."
    ]
    if n_rows:
        half = math.sqrt(math.log(2 / (1 - CONFIDENCE)) / (2 * n_rows))
        words.append(
            "If these rows were drawn at random from those that the model will meet, then with"
            f" {CONFIDENCE:.0%} confidence any one share of all rows above is within {100 * half:.2f} percentage points"
            " of that of all of these (Hoeffding)."
        )
    if n_open:
        are = "row was" if n_open == 1 else "rows were"
        words.append(f"{n_open:,} {are} not decided in time, and count as not robust.")
    return [*words, REALITY, *findings["data"].get("remarks", ())]


def _gaps(findings: dict[str, Any]) -> list[str]:
    words = [NOT_EXAMINED]
    if findings["certified_curve"] is None:
        words.append("Radii were not found: nothing is said of smaller or larger budgets of the attacker.")
    if findings["origin"].get("rows_left_out"):
        left_out = counted(findings["origin"]["rows_left_out"], "row")
        words.append(f"{left_out} of the data, those that the model was trained on, are left out.")
    if "model_file_sha256" not in findings["origin"]:
        words.append("From which file the model was read is not recorded.")
    return words


def _checks(findings: dict[str, Any]) -> list[str]:
    certificate, name = findings.get("certificate"), findings["origin"].get("model_file", "MODEL")
    if certificate is None:
        return [
            "No proofs were written: who doubts a verdict has to find it again, from model and rows with the SHA-256"
            " below. certify --proof writes a file that others can check without doing the work again."
        ]
    return [
        f"Whoever has the model and the file of proofs {certificate['file']} (SHA-256 {certificate['sha256']}), by"
        f" certiforest audit model.json {certificate['file']}, or, without installing anything, by python -I audit.py"
        f" model.json {certificate['file']}. That program (SHA-256 {certificate_facts(PROGRAM)['sha256']}) needs"
        " nothing but Python, shares no code with the one that proves, computes predictions and shares anew, and checks"
        " the proof of each row, in whole numbers.",
        f"model.json is written by certiforest convert {name} --out model.json; that it says what {name} says is"
        f" checked by certiforest audit --original {name}, which needs certiforest.",
    ]
