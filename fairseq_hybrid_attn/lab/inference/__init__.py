"""A trained model, sentences to run it on, and what its attention does with them."""
