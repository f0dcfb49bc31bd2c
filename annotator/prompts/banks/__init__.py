"""The banks that come with goalreel: one YAML file for each domain."""
