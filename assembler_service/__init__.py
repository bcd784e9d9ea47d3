"""PromptAssembler: one token budget for everything that might be in a prompt, and a receipt of what became of it."""
