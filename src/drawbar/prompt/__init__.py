"""What the model is told: one compiler of the system prompt, and the updates that follow it (chapter 04)."""
