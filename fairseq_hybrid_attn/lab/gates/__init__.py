"""Gates: how much each branch contributes to the output of an attention."""
