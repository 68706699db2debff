"""What code outside torch changed in torch, compared with torch as it was installed."""
