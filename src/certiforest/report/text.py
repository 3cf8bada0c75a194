"""The report as a page of plain text."""

from __future__ import annotations

from typing import Any

from certiforest.words import interval


def as_text(findings: dict[str, Any]) -> str:
    """Write the main findings as a page of plain text."""
    model, data, attacker = findings["model"], findings["data"], findings["attacker"]
    lines = [
        f"{model['name']} on {data['name']} against L{attacker['norm']}, eps {attacker['eps']}",
        f"{model['n_trees']} trees, {model['n_nodes']} nodes, {model['n_features']} features",
        f"{data['n_rows']} rows",
    ]
    if findings["verdicts"] is None:
        lines += [f"{name}: {count}" for name, count in findings["stability"].items()]
    else:
        robust = interval(findings["robust_accuracy_bounds"], ".2%")
        lines.append(f"accuracy {findings['accuracy']:.2%}, robust accuracy {robust}")
        lines += [f"{name}: {count}" for name, count in findings["verdicts"].items()]
    closest = findings["spread_map"]["closest_pair"]
    if closest is not None:
        lines.append(f"closest thresholds of two trees: {closest['distance']:.6g} apart, on {closest['feature']}")
    if findings["fragile_rows"]:
        lines.append(
            "most fragile rows, each with a change that works (numbers; whether the world has them is not examined):"
        )
    for row in findings["fragile_rows"]:
        changes = ", ".join(f"{c['feature']} {c['from']:.6g} -> {c['to']:.6g}" for c in row["changes"][:3])
        more = f" and {row['n_changed'] - 3} more" if row["n_changed"] > 3 else ""
        lines.append(
            f"  row {row['row']}: {row['prediction']} becomes {row['changed_prediction']} at eps"
            f" {row['radius']:.6g} by {changes}{more}"
        )
    return "\n".join(lines) + "\n"
