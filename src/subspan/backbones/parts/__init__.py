"""What backbones are made of."""
