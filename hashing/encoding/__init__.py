"""Values as canonical text."""
