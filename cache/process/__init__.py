"""What has to do with a process: writing behind, forks, exit."""
