"""Images and splits: every data set in one form, and which of its classes and images serve which purpose."""
