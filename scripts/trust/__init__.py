"""Who is believed: keys to sign and check with, and what is not believed any more."""
