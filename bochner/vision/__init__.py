"""Object recognition on images: segments, their descriptors, what classifiers make of them. Needs ``bochner[vision]``."""
