"""Training configurations that come with goalreel, as YAML files that say where their numbers are from."""
