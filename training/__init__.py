"""How goalreel's agents and its nano editor are trained: configurations, trainers, model cards."""
