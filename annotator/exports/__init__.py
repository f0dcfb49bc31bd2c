"""An annotated dataset in the shapes that others read."""
