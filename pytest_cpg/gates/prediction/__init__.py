"""Gates on predictions that answer to planning: what a model knows of actions."""
