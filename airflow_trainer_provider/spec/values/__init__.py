"""The types of the values in a spec, and the checks of a single value."""
