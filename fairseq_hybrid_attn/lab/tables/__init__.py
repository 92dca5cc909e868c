"""Tables: the papers' numbers beside ours, and systems of your own beside the first."""
