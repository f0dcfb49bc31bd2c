"""A benchmark that is not ours: Meta-World's 50 tasks by its own experts, judged by its simulator."""
