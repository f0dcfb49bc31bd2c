"""How records and logs name a recording: `FRAMES-WORDS-FORMER`, three digests in hex.

FRAMES is of frames and rows, and says which recording it is. WORDS is of its tasks and sub-task labels, on
which a plan depends. FORMER is of all of it, and once stood alone: records and logs of that time have it.
"""

_FRAMES, _WORDS = 1, 2


def make_id(frames: str, text: str, former: str) -> str:
    """Join the three digests; 128 bits of the first two are enough."""
    return f"{frames[:32]}-{text[:32]}-{former}"


def pack_id(id: str) -> bytes:
    """The 64 bytes of the three digests."""
    return bytes.fromhex(id.replace("-", ""))


def unpack_id(data: bytes) -> str:
    """What `pack_id` packed."""
    text = data.hex()
    return f"{text[:32]}-{text[32:64]}-{text[64:]}"


def same_frames(first: str | None, other: str | None) -> bool:
    """Tell whether both name the same recording, whatever its words are now."""
    return _same(first, other, _FRAMES)


def same_words(first: str | None, other: str | None) -> bool:
    """Tell whether both name the same recording with the same words."""
    return _same(first, other, _WORDS)


def _same(first: str | None, other: str | None, parts: int) -> bool:
    if first is None or other is None:
        return first == other
    a, b = first.split("-"), other.split("-")
    return a[:parts] == b[:parts] if len(a) == len(b) else a[-1] == b[-1]
