"""The formats that data sets of images come in, one file each."""
