"""How goalreel's agents and its nano editor are trained: configurations, trainers, model cards.

`language.train` makes a Planner or a Critic, as a `LanguageConfig` says; `editor.train` makes the image
editor, as an `EditorConfig` says; `config.read_config` reads either from YAML or from a preset.
"""
