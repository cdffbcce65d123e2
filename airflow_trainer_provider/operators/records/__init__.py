"""What other systems are given of ended jobs: metrics, asset events and lineage."""
