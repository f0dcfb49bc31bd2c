"""The product, as functions of models: annotate a dataset, plan a task, show what was made."""
