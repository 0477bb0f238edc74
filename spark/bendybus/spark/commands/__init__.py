"""The commands of `bendybus pipeline`: options in, a job, a few lines out."""
