"""From a model's name to a model.

names       ModelName, the one parser of names
registry    which kinds there are: a registry a role, for goalreel and for plugins
kinds       the kinds that come with goalreel
lookup      the kind of a name; the forms that help and errors list
presets     YAML files that name a planner, an editor and a critic
load        load(preset): the three models, as a Trio
journal     answers kept on disk, so that a killed run asks no model twice
"""
