"""Text that is safe to show: printable, and without secrets."""
