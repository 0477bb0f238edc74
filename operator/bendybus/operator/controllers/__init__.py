"""What acts: a controller per bus, reconcilers, webhooks, the process that runs them."""
