"""Private torch: the only room that names modules, attributes and settings that torch does not document."""
