"""Those who write answers: by quoting, or by a chat model."""
