"""Every statistic of attention once more, in plain NumPy loops written from the definitions alone: the referee."""

import numpy as np

SHARES = ("previous", "next", "self", "first", "separators", "punctuation")
OFFSETS = {"previous": -1, "next": 1, "self": 0}


def statistics(p, visible, rows, separators, punctuation, without_first=False):
    """{name: (value, uniform, rows)} of one map p [T, S]; NaN where no row counts."""
    tokens = len(p)
    p, visible = p.astype(np.float64).copy(), visible.copy()
    if without_first:
        visible[:, 0] = False
        p[:, 0] = 0
    sums = {name: [[], []] for name in ("entropy", "normalised", "effective", *SHARES, "distance")}

    def add(name, value, uniform):
        sums[name][0].append(value)
        sums[name][1].append(uniform)

    for i in range(tokens):
        keys = [j for j in range(tokens) if visible[i, j]]
        if not rows[i] or not keys:
            continue
        row = p[i]
        if without_first:
            if row.sum() == 0:
                continue
            row = row / row.sum()
        n = len(keys)
        entropy = -sum(row[j] * np.log(row[j]) for j in keys if row[j] > 0)
        add("entropy", entropy, np.log(n))
        if n >= 2:
            add("normalised", entropy / np.log(n), 1.0)
        add("effective", np.exp(entropy), n)
        add("distance", sum(row[j] * abs(i - j) for j in keys), np.mean([abs(i - j) for j in keys]))
        for name, offset in OFFSETS.items():
            if i + offset in keys:
                add(name, row[i + offset], 1 / n)
        if 0 in keys:
            add("first", row[0], 1 / n)
        for name, marked in (("separators", separators), ("punctuation", punctuation)):
            targets = [j for j in keys if marked[j]]
            if targets:
                add(name, sum(row[j] for j in targets), len(targets) / n)
    return {
        name: (np.mean(values), np.mean(uniforms), len(values)) if values else (np.nan, np.nan, 0)
        for name, (values, uniforms) in sums.items()
    }


def clark(p, visible, separators, punctuation):
    """As Clark et al. 2019 count: all rows, all denominators T, smoothing before the entropy."""
    tokens = len(p)
    uniform = visible / visible.sum(1, keepdims=True)
    found = {}
    for name in ("entropy", "normalised", "effective", *SHARES, "distance"):
        found[name] = (np.nan, np.nan, 0)

    def entropy(a):
        smooth = 0.9999 * a.astype(np.float64) + 0.0001 / tokens
        return float(np.mean(-(smooth * np.log(smooth)).sum(1)))

    found["entropy"] = (entropy(p), entropy(uniform), tokens)
    targets = {name: [(i, i + offset) for i in range(tokens)] for name, offset in OFFSETS.items()}
    targets["first"] = [(i, 0) for i in range(tokens)]
    targets["separators"] = [(i, j) for i in range(tokens) for j in range(tokens) if separators[j]]
    targets["punctuation"] = [(i, j) for i in range(tokens) for j in range(tokens) if punctuation[j]]
    for name, pairs in targets.items():
        pairs = [(i, j) for i, j in pairs if 0 <= j < tokens and visible[i, j]]
        if pairs:
            found[name] = (
                sum(float(p[i, j]) for i, j in pairs) / tokens,
                sum(float(uniform[i, j]) for i, j in pairs) / tokens,
                tokens,
            )
    return found


def cells(values, visible, count, pool):
    """A map [T, S] reduced to count cells a side; mean over visible pairs, 0 where there are none."""
    tokens = len(values)
    count = min(count, tokens)
    borders = [c * tokens // count for c in range(count + 1)]
    picture = np.zeros((count, count))
    for q in range(count):
        for k in range(count):
            cut = (slice(borders[q], borders[q + 1]), slice(borders[k], borders[k + 1]))
            if pool == "max":
                picture[q, k] = values[cut].max()
            elif pool == "change":
                flat = values[cut].ravel()
                picture[q, k] = flat[np.abs(flat).argmax()]
            else:
                picture[q, k] = values[cut].sum() / max(1, visible[cut].sum())
    return picture
