"""Models by their names: the parser, the registry, presets, loading, and answers kept on disk."""
