"""Running a graph backward."""
