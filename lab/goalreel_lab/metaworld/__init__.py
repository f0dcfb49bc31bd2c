"""A benchmark by others: Meta-World's 50 tasks, done by its own experts and judged by its simulator."""
