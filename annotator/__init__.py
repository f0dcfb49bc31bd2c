"""The product: types, the storyboard loop, its drivers, reports and the command line."""
