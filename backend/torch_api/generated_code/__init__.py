"""What generated code of Inductor's runs in: its wrapper modules, and what they import."""
