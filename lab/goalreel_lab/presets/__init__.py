"""Configurations of `goalreel train` for the nano models, one YAML file each."""
