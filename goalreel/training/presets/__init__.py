"""Training configurations that come with goalreel: YAML files that name the source of each number."""
