"""What torch knows of a job's ranks: whether code is one rank's own, names of groups in it, pieces that DDP makes."""
