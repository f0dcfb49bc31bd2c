"""Training corpora from stored storyboards, by InterleaveThinker's recipe (arXiv 2606.13679, section 3.2)."""
