"""Base sessions: recipes, training, and features of a trained network."""
