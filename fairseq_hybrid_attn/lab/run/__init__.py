"""A run: its folder and record, its steps, and fairseq's command lines and devices for them."""
