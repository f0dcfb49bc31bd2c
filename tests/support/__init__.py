"""What tests share. `tests/` is on the path of the tests and of every process they start."""
