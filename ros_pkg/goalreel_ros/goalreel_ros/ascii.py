"""Captions in ASCII, for what can draw nothing else."""

import unicodedata

_LIKE = str.maketrans(
    {"ß": "ss", "æ": "ae", "Æ": "AE", "ø": "o", "Ø": "O", "œ": "oe", "ł": "l", "Ł": "L", "ı": "i", "đ": "d"}
    | dict.fromkeys("‘’‚′", "'")
    | dict.fromkeys("“”„″", '"')
    | dict.fromkeys("‐‑‒–—−", "-")
    | {"…": "...", "×": "x", "→": "->", "·": "-", "°": " deg"}
)


def to_ascii(text: str, fallback: str) -> str:
    """The text in ASCII, which is all RViz can draw; the fallback when that loses more than it keeps."""
    plain = unicodedata.normalize("NFKD", text.translate(_LIKE))
    letters = [c for c in plain if not unicodedata.combining(c)]
    kept = "".join(c if c.isprintable() else " " for c in letters if c.isascii())
    lost = sum(not c.isascii() for c in letters)
    kept = " ".join(kept.split())
    return kept if kept and lost * 2 < len(letters) else fallback
