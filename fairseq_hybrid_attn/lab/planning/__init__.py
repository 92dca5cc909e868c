"""What will run and what has run: plans, states, and the commands that show them."""
