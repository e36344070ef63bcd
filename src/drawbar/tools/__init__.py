"""What a model can do: the built-in tools, and the executor that has every call judged and carries it out (ENG-6)."""
