"""The pure core: what happens to one run. Reads no clock, no random number, and awaits nothing."""
