"""Policies as ValidatingAdmissionPolicies, which the cluster's API server enforces for every client."""
