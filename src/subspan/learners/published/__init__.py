"""Published systems: one file each, registered like a method, so that every protocol runs them.

A system's docstring says where it comes from, what setting it was built for, its equations, and where ours departs.
"""
