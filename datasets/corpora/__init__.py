"""Training corpora on disk: rows of one kind, as a Hugging Face dataset and as ShareGPT JSON.

It knows no kind of row: a `RowKind` says how one is stored and what is learned from it. The kinds with
ground truth are made in `goalreel.tabletop.lessons`.
"""
