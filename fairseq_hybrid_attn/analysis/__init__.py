"""What the attention of trained models does, and what their states know."""
