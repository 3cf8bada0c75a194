"""Bin codes, and histograms of a node's rows: read by column or, where most codes of a column are the same, by row."""

from certiforest.compiled import kernel


@kernel
def count_codes(code, count, out_common, out_n_uncommon):
    """Write the commonest code of each feature, and add up how many codes of each row are another one."""
    for f in range(code.shape[0]):
        count[:] = 0
        for i in range(code.shape[1]):
            count[code[f, i]] += 1
        common = count.argmax()
        out_common[f] = common
        for i in range(code.shape[1]):
            out_n_uncommon[i] += code[f, i] != common


@kernel
def list_uncommon(code, common, first, end, out_cell):
    """Write the cells of each row; ``end`` (n_rows,) is where each row's begin, and becomes where they end."""
    for f in range(code.shape[0]):
        for i in range(code.shape[1]):
            cell = first[f] + code[f, i]
            if cell != common[f]:
                out_cell[end[i]] = cell
                end[i] += 1


@kernel
def copy_rows(start, cell, rows, out_start, out_cell):
    """Copy the cells of some rows."""
    for i in range(rows.shape[0]):
        first = start[rows[i]]
        for j in range(out_start[i + 1] - out_start[i]):
            out_cell[out_start[i] + j] = cell[first + j]


@kernel
def fill_by_column(code, row, weight, class_index, start, stop, feature, histogram):
    """Add the rows of a node to the histograms of up to four features, by class, with the number of rows last.

    Most rows of many features fall into one bin, and adding to one number again and again waits for each sum before
    the next. Four features side by side wait at the same time.
    """
    n_features, n_classes = feature.shape[0], histogram.shape[2] - 1
    if n_features == 4:
        code_0, code_1, code_2, code_3 = code[feature[0]], code[feature[1]], code[feature[2]], code[feature[3]]
        histogram_0, histogram_1, histogram_2, histogram_3 = histogram
        for i in range(start, stop):
            r, w = row[i], weight[i]
            c = class_index[r]
            k_0, k_1, k_2, k_3 = code_0[r], code_1[r], code_2[r], code_3[r]
            histogram_0[k_0, c] += w
            histogram_1[k_1, c] += w
            histogram_2[k_2, c] += w
            histogram_3[k_3, c] += w
            histogram_0[k_0, n_classes] += 1.0
            histogram_1[k_1, n_classes] += 1.0
            histogram_2[k_2, n_classes] += 1.0
            histogram_3[k_3, n_classes] += 1.0
    else:
        for j in range(n_features):
            code_of_row, one = code[feature[j]], histogram[j]
            for i in range(start, stop):
                k = code_of_row[row[i]]
                one[k, class_index[row[i]]] += weight[i]
                one[k, n_classes] += 1.0


@kernel
def fill_by_row(uncommon, frontier, node, class_index, whole, histogram):
    """Write the histograms of all features for the rows of a node, by class, with the number of rows last.

    Lines are cells, see `UncommonCodes`. What the uncommon ones leave of the whole is in the commonest.
    """
    n_classes, common, cell_start = whole.shape[0], uncommon.common, uncommon.first
    histogram[:] = 0.0
    first, last = frontier.start[node], frontier.start[node + 1]
    for i in range(first, last):
        r, w = frontier.row[i], frontier.weight[i]
        c = class_index[r]
        for j in range(uncommon.start[r], uncommon.start[r + 1]):
            k = uncommon.cell[j]
            histogram[k, c] += w
            histogram[k, n_classes] += 1.0
    for f in range(common.shape[0]):
        n_others = 0.0
        for k in range(cell_start[f], cell_start[f + 1]):
            n_others += histogram[k, n_classes]
        if n_others < last - first:
            for c in range(n_classes):
                others = 0.0
                for k in range(cell_start[f], cell_start[f + 1]):
                    others += histogram[k, c]
                histogram[common[f], c] = max(0.0, whole[c] - others)  # weights of any size are rounded in sums
            histogram[common[f], n_classes] = last - first - n_others
