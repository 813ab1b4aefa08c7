"""Methods: one file each. A method says how the rows of novel classes come about and how rows score a query."""
