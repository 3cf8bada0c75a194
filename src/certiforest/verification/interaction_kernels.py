"""List what an attacker can do to a row, tree by tree: reachable leaves and the turns they ask for."""

from numba import njit

from certiforest.reach_kernels import other_side_is_near, raised_cost
from certiforest.rounding_kernels import successor


@njit(cache=True, nogil=True)
def list_leaves(
    trees, x, high, low, unit, norm, limit, stack, stack_cost, stack_turns, path, out_leaf, out_turn_end, out_turn
):
    """List the leaves that cost at most ``limit``, tree by tree, the row's own leaf first.

    The turns of a leaf are the splits on its path that the attacker can turn there, each as ``2 * split + side``, side
    1 for right. Turns of the k-th leaf end at ``out_turn_end[k]`` and begin where those of the leaf before end. Return
    how many leaves and turns there are; those beyond the length of the outputs are counted, not written.

    ``path`` holds the turns above the current node. A side that waits on the stack remembers how many of them are
    its own (``stack_turns``): what is visited before it only changes turns further down.
    """
    n_leaves = 0
    n_turns = 0
    for tree in range(trees.tree_start.shape[0] - 1):
        stack[0] = trees.tree_start[tree]
        stack_cost[0] = 0.0
        stack_turns[0] = 0
        depth = 1
        while depth > 0:
            depth -= 1
            node, cost, length = stack[depth], stack_cost[depth], stack_turns[depth]
            if length < 0:  # the other side of a split: its turn is not on the path yet
                length = ~length
                split = path[length] >> 1
                path[length] = 2 * split + (node == trees.right[split])
                length += 1
            while trees.right[node] != node:
                f, v = trees.feature[node], trees.threshold[node]
                value = x[f]
                own = node + 1 if value <= v else trees.right[node]
                if other_side_is_near(value, v, high[f], low[f]):
                    if value > v:
                        other = node + 1
                        raised = raised_cost(cost, value, min(value, trees.high[node]), v, unit[f], norm)
                    else:
                        other = trees.right[node]
                        bound = value if value > trees.low[node] else successor(trees.low[node])
                        raised = raised_cost(cost, value, bound, successor(v), unit[f], norm)
                    path[length] = 2 * node + (value > v)
                    if raised <= limit:
                        stack[depth] = other
                        stack_cost[depth] = raised
                        stack_turns[depth] = ~length
                        depth += 1
                    length += 1
                node = own
            if n_leaves < out_leaf.shape[0]:
                out_leaf[n_leaves] = node
                out_turn_end[n_leaves] = n_turns + length
            for k in range(length):
                if n_turns < out_turn.shape[0]:
                    out_turn[n_turns] = path[k]
                n_turns += 1
            n_leaves += 1
    return n_leaves, n_turns
