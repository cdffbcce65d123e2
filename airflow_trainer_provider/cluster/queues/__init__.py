"""The queues of Kueue: which jobs wait there, which resources they lack, and when they may start."""
