"""Where every tool call is judged and carried out: workspace roots, the gate, the sandbox and its processes."""
