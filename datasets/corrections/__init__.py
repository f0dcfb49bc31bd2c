"""What people correct in an annotated dataset: an append-only log an episode, and what is made of it."""
