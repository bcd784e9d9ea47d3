"""Where two lists of tokens differ.

Owns a longest common subsequence over the tokens' keys; what a difference means is for `values` to say.
"""

from collections.abc import Sequence

from memory_service.domain.wording.tokens import Token


def replaced(a: Sequence[Token], b: Sequence[Token]) -> list[tuple[list[Token], list[Token]]]:
    """The stretches in which two token lists differ, by a longest common subsequence over keys."""
    head = 0
    while head < min(len(a), len(b)) and a[head].key == b[head].key:
        head += 1
    tail = 0
    while tail < min(len(a), len(b)) - head and a[-1 - tail].key == b[-1 - tail].key:
        tail += 1
    left, right = a[head : len(a) - tail], b[head : len(b) - tail]
    table = [[0] * (len(right) + 1) for _ in range(len(left) + 1)]
    for i in range(len(left) - 1, -1, -1):
        for j in range(len(right) - 1, -1, -1):
            same = left[i].key == right[j].key
            table[i][j] = table[i + 1][j + 1] + 1 if same else max(table[i + 1][j], table[i][j + 1])
    return _stretches(left, right, table)


def _stretches(
    left: Sequence[Token], right: Sequence[Token], table: list[list[int]]
) -> list[tuple[list[Token], list[Token]]]:
    found: list[tuple[list[Token], list[Token]]] = []
    gone: list[Token] = []
    come: list[Token] = []
    i = j = 0
    while i < len(left) or j < len(right):
        if i < len(left) and j < len(right) and left[i].key == right[j].key:
            if gone or come:
                found.append((gone, come))
                gone, come = [], []
            i, j = i + 1, j + 1
        elif j == len(right) or (i < len(left) and table[i + 1][j] >= table[i][j + 1]):
            gone.append(left[i])
            i += 1
        else:
            come.append(right[j])
            j += 1
    return [*found, (gone, come)] if gone or come else found
