"""Training corpora with ground truth, made on the simulated tabletop."""
