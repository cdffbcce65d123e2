"""Operations on jobs: submit, adopt, end, suspend, find, render."""
