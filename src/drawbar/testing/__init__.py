"""Kits that ship with the package: what tests and the demo run against in place of a real provider."""
