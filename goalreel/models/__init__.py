"""From a model's name to a model. Each module imports only from those above it.

model_options      what may follow a name as ?key=value
names              ModelName, the one parser of names
registry           which kinds there are: a registry a role, for goalreel and for plugins
kinds              the kinds that come with goalreel
discovery          the kind of a name; the forms that help and errors list
presets            YAML files that name a planner, an editor and a critic
provenance         where answers come from: for records, reports and journals
journal, lazy      answers on disk, so that a killed run asks no model twice; models loaded when first asked
model_set               the three models together, and the middleware around them
build              one model by its name
load               load(preset): the three models, as a ModelSet
"""
