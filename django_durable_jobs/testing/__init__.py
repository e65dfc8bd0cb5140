"""What projects and driver authors use in their tests; nothing here is imported in production."""
