"""Decisions: what fits, in which order, how it is written down. Pure: no await, no clock, no input or output."""
