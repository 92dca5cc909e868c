"""Tables: the paper's numbers beside ours, claims, printing, publishing."""
