"""Training corpora on disk: rows of one kind, as a Hugging Face dataset and as ShareGPT JSON.

A `RowKind` says how its rows are stored and what is learned from them. Kinds with ground truth are made in
`goalreel_lab.corpora`. The format: docs/reference/corpus-format.md.
"""
