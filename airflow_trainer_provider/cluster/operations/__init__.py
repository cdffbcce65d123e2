"""What is done with jobs: submit, adopt, end, suspend, find, render."""
