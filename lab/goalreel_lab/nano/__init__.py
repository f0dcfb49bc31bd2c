"""Small models in the classes of the full ones, for the simulated tabletop."""
