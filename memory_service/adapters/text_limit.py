"""How much of a text an embedding model is given: a cheap bound by characters, on the safe side of its token limit.

Owns the estimate and the cut. Not a token counter: the models' vocabularies differ, and counting costs more than the
estimate saves. Also refuses what no model should see.
"""

import numpy as np

# Quarter tokens a character costs at most in ordinary text, by code point: Latin words take about four letters a token,
# digits and code two characters, other alphabets two, CJK one each; emoji take up to three tokens.
_FIRST_CODE = np.array([0x00, 0x80, 0x0800, 0x10000])
_WEIGHT = np.array([1, 2, 4, 12])
_ASCII_WEIGHT = np.array([1 if chr(code).isalpha() or chr(code) == " " else 2 for code in range(0x80)])


def check_text(text: str) -> None:
    """ValueError for what was never to come here: nothing, a NUL (ends the text early in C), a lone surrogate."""
    if not text.strip() or "\0" in text:
        raise ValueError("text to embed is empty or has a NUL")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("text to embed has a lone surrogate") from None


def fitting(text: str, max_tokens: int) -> int:
    """How many characters of `text`, from its start, fit `max_tokens` by the estimate."""
    if len(text) * int(_WEIGHT[-1]) <= max_tokens * 4:
        return len(text)
    return int(np.searchsorted(np.cumsum(_weights(text)), max_tokens * 4, side="right"))


def weight(text: str) -> float:
    """Estimated tokens of `text`."""
    return float(_weights(text).sum()) / 4


def _weights(text: str) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4").astype(np.int64)
    weights = _WEIGHT[np.searchsorted(_FIRST_CODE, codes, side="right") - 1]
    ascii_only = codes < 0x80
    weights[ascii_only] = _ASCII_WEIGHT[codes[ascii_only]]
    return weights
