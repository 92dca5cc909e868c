"""Text: words, tokenisers, test sets, training logs."""
