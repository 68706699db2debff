"""Settings: the environment, the arguments, and Redis URLs, parsed and checked."""
