"""Tools for developers of this provider. They are not part of the package."""
