"""The queues of Kueue: who waits there, what they lack, and when they may start."""
