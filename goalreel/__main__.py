"""`python -m goalreel`: the command line."""

from goalreel.cli.main import app

app(prog_name="goalreel")
