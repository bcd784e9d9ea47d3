"""What the domain needs from outside: counting tokens with a shipped vocabulary, prompt texts from files."""
