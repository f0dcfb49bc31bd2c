"""Captions in ASCII, for displays that can draw nothing else."""

import unicodedata

_REPLACEMENTS = str.maketrans(
    {"ß": "ss", "æ": "ae", "Æ": "AE", "ø": "o", "Ø": "O", "œ": "oe", "ł": "l", "Ł": "L", "ı": "i", "đ": "d"}
    | dict.fromkeys("‘’‚′", "'")
    | dict.fromkeys("“”„″", '"')
    | dict.fromkeys("‐‑‒–—−", "-")
    | {"…": "...", "×": "x", "→": "->", "·": "-", "°": " deg"}
)


def to_ascii(text: str, fallback: str) -> str:
    """Give the text in ASCII, which is all RViz can draw; the fallback where half of it would be lost."""
    decomposed = unicodedata.normalize("NFKD", text.translate(_REPLACEMENTS))
    letters = [c for c in decomposed if not unicodedata.combining(c)]
    ascii_text = "".join(c if c.isprintable() else " " for c in letters if c.isascii())
    lost_count = sum(not c.isascii() for c in letters)
    ascii_text = " ".join(ascii_text.split())
    return ascii_text if ascii_text and lost_count * 2 < len(letters) else fallback
