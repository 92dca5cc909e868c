"""Style of all figures; matplotlib is needed to draw them."""
