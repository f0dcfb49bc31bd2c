"""From a model's name to a model. Each module imports only from those above it.

names              ModelName, the one parser of names, and what may follow a name as ?key=value
registry, kinds    which kinds there are: a registry a role, for goalreel and for plugins
presets            YAML files that name a planner, an editor and a critic
journal            answers on disk, so that a killed run asks no model twice
model_set          the three models together, where their answers come from, and middleware around them
load               load(preset): the three models, as a ModelSet; or one by its name
scorers, memory    scorers of pictures by name; what a preset's models take on a GPU
"""
