"""Tools of MCP servers: programs and addresses that a person set up, started when first needed (PRO-3)."""
