"""What developers of this provider run: nothing here ships."""
