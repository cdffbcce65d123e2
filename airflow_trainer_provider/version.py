"""The version of this provider."""

__version__ = "0.1.0"
