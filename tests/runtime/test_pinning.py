"""Being written by another engineer right now: leave this file to them."""
