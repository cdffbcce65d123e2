"""Measures the provider beside what people would use without it. ``make bench`` runs all."""
