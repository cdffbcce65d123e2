"""MPIJobs, of the MPI Operator and of the Training Operator."""
