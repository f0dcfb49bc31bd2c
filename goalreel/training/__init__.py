"""How goalreel's agents are trained: configurations, trainers, model cards.

`language.train` fine-tunes a Planner or a Critic, as a `LanguageConfig` says; `grpo.train` reinforces a
Critic, as a `GrpoConfig` says; `config.read_config` reads either from YAML or from a preset. The nano models
are built in `goalreel.tabletop.nano`, which also trains the nano editor.
"""
