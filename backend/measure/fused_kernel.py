"""The Triton program of `fused.reduce`: one cell of query rows of one head."""

# mypy: ignore-errors
import triton
import triton.language as tl


@triton.jit
def _scores(
    query, key_at, numbers, in_width, key_s, key_d, keys, end, low, high, scale, cap,
    CAPPED: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """Scores of a tile; −inf where a row does not see a key."""
    key = tl.load(
        key_at + keys[:, None] * key_s + numbers[None, :] * key_d,
        mask=(keys < end)[:, None] & in_width[None, :], other=0.0,
    )  # fmt: skip
    if EXACT:
        scores = tl.dot(query, tl.trans(key), input_precision="ieee") * scale
    else:
        scores = tl.dot(query, tl.trans(key)) * scale
    if CAPPED:
        scores = cap * (2.0 / (1.0 + tl.exp(-2.0 * scores / cap)) - 1.0)
    seen = (keys[None, :] >= low[:, None]) & (keys[None, :] < high[:, None]) & (keys < end)[None, :]
    return tl.where(seen, scores, float("-inf"))


@triton.jit
def reduce_rows(
    query_at, key_at, sees_at, marks_at, rows_at, cells_at,
    query_h, query_t, query_d, key_g, key_s, key_d, heads, tokens, cells, width, group, scale, cap,
    CAPPED: tl.constexpr, MOST: tl.constexpr, EXACT: tl.constexpr, TILE: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """Rows of one cell of head `program_id(1)`; `fused.reduce` says what is written. The longest begin."""
    cell, head = cells - 1 - tl.program_id(0), tl.program_id(1)
    first_row, end_row = cell * tokens // cells, (cell + 1) * tokens // cells
    rows, numbers = first_row + tl.arange(0, TILE), tl.arange(0, WIDTH)
    in_rows, in_width = rows < end_row, numbers < width
    low = tl.load(sees_at + rows, mask=in_rows, other=tokens)
    high = tl.load(sees_at + tokens + rows, mask=in_rows, other=0)
    query = tl.load(
        query_at + head * query_h + rows[:, None] * query_t + numbers[None, :] * query_d,
        mask=in_rows[:, None] & in_width[None, :], other=0.0,
    )  # fmt: skip
    keys_of_head = key_at + (head // group) * key_g
    first_key, end_key = tl.min(low, 0), tl.max(high, 0)

    most = tl.full([TILE], float("-inf"), tl.float32)
    total = tl.zeros([TILE], tl.float32)
    for start in range(first_key, end_key, TILE):
        keys = start + tl.arange(0, TILE)
        scores = _scores(
            query, keys_of_head, numbers, in_width, key_s, key_d, keys, end_key, low, high, scale, cap, CAPPED, EXACT
        )
        higher = tl.maximum(most, tl.max(scores, 1))
        safe = tl.where(higher == float("-inf"), 0.0, higher)
        total = total * tl.exp(most - safe) + tl.sum(tl.exp(scores - safe[:, None]), 1)
        most = higher

    normal = tl.where(most == float("-inf"), 0.0, most) + tl.log(tl.where(total > 0, total, 1.0))
    entropy, distance = tl.zeros([TILE], tl.float32), tl.zeros([TILE], tl.float32)
    separators, punctuation = tl.zeros([TILE], tl.float32), tl.zeros([TILE], tl.float32)
    previous, itself, following = (
        tl.zeros([TILE], tl.float32),
        tl.zeros([TILE], tl.float32),
        tl.zeros([TILE], tl.float32),
    )
    first, mass = tl.zeros([TILE], tl.float32), tl.zeros([TILE], tl.float32)
    # cell c begins at c * tokens // cells: key k lies in the last cell that begins at k or before
    first_cell, end_cell = ((first_key + 1) * cells - 1) // tokens, (end_key * cells - 1) // tokens + 1
    for place in range(tl.where(end_key > first_key, first_cell, 0), tl.where(end_key > first_key, end_cell, 0)):
        start, end = place * tokens // cells, (place + 1) * tokens // cells
        keys = start + tl.arange(0, TILE)
        scores = _scores(
            query, keys_of_head, numbers, in_width, key_s, key_d, keys, end, low, high, scale, cap, CAPPED, EXACT
        )
        logs = scores - normal[:, None]
        weights = tl.exp(logs)
        apart = rows[:, None] - keys[None, :]
        entropy -= tl.sum(tl.where(weights > 0, weights * logs, 0.0), 1)
        mass += tl.sum(weights, 1)
        distance += tl.sum(weights * tl.abs(apart).to(tl.float32), 1)
        separators += tl.sum(weights * tl.load(marks_at + keys, mask=keys < end, other=0.0)[None, :], 1)
        punctuation += tl.sum(weights * tl.load(marks_at + tokens + keys, mask=keys < end, other=0.0)[None, :], 1)
        if place == 0:
            first += tl.sum(tl.where((keys == 0)[None, :], weights, 0.0), 1)
        if (place >= cell - 1) & (place <= cell + 1):
            previous += tl.sum(tl.where(apart == 1, weights, 0.0), 1)
            itself += tl.sum(tl.where(apart == 0, weights, 0.0), 1)
            following += tl.sum(tl.where(apart == -1, weights, 0.0), 1)
        one = tl.max(tl.max(weights, 1), 0) if MOST else tl.sum(tl.sum(weights, 1), 0)
        tl.store(cells_at + (head * cells + cell) * cells + place, one)

    into, step = rows_at + head * tokens + rows, heads * tokens
    tl.store(into, entropy, mask=in_rows)
    tl.store(into + step, previous, mask=in_rows)
    tl.store(into + 2 * step, itself, mask=in_rows)
    tl.store(into + 3 * step, following, mask=in_rows)
    tl.store(into + 4 * step, first, mask=in_rows)
    tl.store(into + 5 * step, mass, mask=in_rows)
    tl.store(into + 6 * step, separators, mask=in_rows)
    tl.store(into + 7 * step, punctuation, mask=in_rows)
    tl.store(into + 8 * step, distance, mask=in_rows)
