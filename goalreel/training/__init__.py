"""Training of goalreel's Planner and Critic: configurations, trainers, model cards.

`sft.train` fine-tunes a Planner or a Critic by a `SftConfig`. `grpo.train` trains a Critic by
reinforcement, by a `GrpoConfig`. `config.read_config` reads either from YAML or from a preset. The nano
models are built in `goalreel_lab.nano`, which also trains the nano editor.
"""
