"""Events of a host: written, followed and counted."""
