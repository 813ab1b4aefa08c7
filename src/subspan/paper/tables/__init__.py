"""Tables of the paper: published rows beside ours."""
