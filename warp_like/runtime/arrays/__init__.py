"""Arrays, views of them, nested arrays, and what other libraries give and take."""
