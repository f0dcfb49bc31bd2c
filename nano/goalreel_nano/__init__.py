"""The nano checkpoints of goalreel, a folder each, with its model card."""
