"""List and watch into a store, with subscriptions."""
