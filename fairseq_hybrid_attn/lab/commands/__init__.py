"""The commands: each parses its flags, calls one function, and prints or writes what it returns."""
