"""From Python source to typed IR with structured control flow."""
