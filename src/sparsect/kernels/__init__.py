"""Fast versions of single operations for each device; all versions of an operation give the same result."""
