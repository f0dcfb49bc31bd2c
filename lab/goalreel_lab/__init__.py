"""The laboratory of goalreel: what measures it, trains its nano models and reproduces published benchmarks.

Installed beside goalreel it adds commands: `goalreel eval ...` and `goalreel corpus make`. It imports
goalreel; goalreel never imports it.
"""
