"""What a key needs to know of torch beside the graph: settings, custom code, hooks."""
