"""Dynamo's frames: where one is handed over to be traced, what a trace gives, and the same again without a trace."""
