"""What a training step is made of: augmentation, optimisers, the step itself."""
