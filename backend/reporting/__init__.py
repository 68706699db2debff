"""What is told of a compile: journal, torch's structured trace, OpenTelemetry; and failures that must not spread."""
