"""The best tables of a box as a linear program; see `relaxation`."""

import numpy as np

from certiforest.compiled import kernel
from certiforest.verification.tables_kernels import is_in_box


@kernel
def list_rows(cells, leaves, tables, reach):
    """List the rows of the linear program that are not zero: row by row, columns, numbers and where rows end.

    Columns: a number per segment, one per tree and one per variable, lambda, then one per rule that leaves a choice of
    segments. Rows, each to be at least its right side, which is 0 but for leaves:

        leaf     tree + sum of its rules' numbers              >= lead
        rule     segment - rule                                >= 0      for each segment it allows
        cell     variable - sum of segments + price * lambda   >= 0

    Also return the leaf of each row (-1 for others), and how many rules leave a choice.
    """
    n_segments, n_trees, n_variables = leaves.begin.shape[0], leaves.tree.shape[0], tables.low.shape[0]
    n_rules = leaves.place.shape[0]
    first_tree, first_variable = n_segments, n_segments + n_trees
    price_column = first_variable + n_variables
    choice_of = np.full(n_rules, -1, np.int64)
    segment_of = np.full(n_rules, -1, np.int64)
    n_choices, size = 0, 0
    for k in range(leaves.node.shape[0]):
        if not reach[k]:
            continue
        i, end = leaves.first_rule[k], leaves.first_rule[k + 1]
        size += 1
        while i < end:
            first, s = i, leaves.place[i]
            v, n_allowed, last = leaves.scope[s], 0, -1
            while i < end and leaves.place[i] == s:
                for g in range(leaves.low[i], leaves.high[i] + 1):
                    if is_in_box(leaves, tables, v, g):
                        n_allowed += 1
                        last = g
                i += 1
            size += 1
            if n_allowed == 1:
                segment_of[first] = last
            else:
                choice_of[first] = n_choices
                n_choices += 1
                size += 2 * n_allowed
    for v in range(n_variables):
        size += (tables.high[v] - tables.low[v] + 1) * (2 + leaves.first_tester[v + 1] - leaves.first_tester[v])
    column, number, row_end = np.empty(size, np.int64), np.empty(size), np.empty(size, np.int64)
    leaf_of = np.full(size, -1, np.int64)
    n = r = 0
    for t in range(n_trees):
        for k in range(leaves.first[t], leaves.first[t + 1]):
            if not reach[k]:
                continue
            column[n], number[n] = first_tree + t, 1.0
            n += 1
            for i in range(leaves.first_rule[k], leaves.first_rule[k + 1]):
                if segment_of[i] >= 0 or choice_of[i] >= 0:
                    column[n] = segment_of[i] if segment_of[i] >= 0 else price_column + 1 + choice_of[i]
                    number[n] = 1.0
                    n += 1
            leaf_of[r], row_end[r] = k, n
            r += 1
            i, end = leaves.first_rule[k], leaves.first_rule[k + 1]
            while i < end:
                first, s = i, leaves.place[i]
                while i < end and leaves.place[i] == s:
                    for g in range(leaves.low[i], leaves.high[i] + 1):
                        if choice_of[first] >= 0 and is_in_box(leaves, tables, leaves.scope[s], g):
                            column[n], number[n] = g, 1.0
                            column[n + 1], number[n + 1] = price_column + 1 + choice_of[first], -1.0
                            n += 2
                            row_end[r] = n
                            r += 1
                    i += 1
    place_of = np.empty(n_trees, np.int64)
    for v in range(n_variables):
        for i in range(leaves.first_tester[v], leaves.first_tester[v + 1]):
            t = leaves.tester[i]
            for s in range(leaves.first_scope[t], leaves.first_scope[t + 1]):
                if leaves.scope[s] == v:
                    place_of[t] = leaves.first_segment[s]
        for c in range(tables.low[v], tables.high[v] + 1):
            column[n], number[n] = first_variable + v, 1.0
            column[n + 1], number[n + 1] = price_column, float(cells.price[c])
            n += 2
            for i in range(leaves.first_tester[v], leaves.first_tester[v + 1]):
                t = leaves.tester[i]
                while leaves.end[place_of[t]] < c:
                    place_of[t] += 1
                column[n], number[n] = place_of[t], -1.0
                n += 1
            row_end[r] = n
            r += 1
    return column[:n], number[:n], row_end[:r], leaf_of[:r], n_choices


@kernel
def set_tables(cells, leaves, tables, value, price):
    """Replace the tables, lambda, and theta with them."""
    tables.table[:] = value
    tables.lambda_[0] = price
    for c in range(tables.theta.shape[0]):
        tables.theta[c] = -price * cells.price[c]
    for s in range(leaves.scope.shape[0]):
        for g in range(leaves.first_segment[s], leaves.first_segment[s + 1]):
            for c in range(leaves.begin[g], leaves.end[g] + 1):
                tables.theta[c] += value[g]
