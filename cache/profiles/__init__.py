"""Which sizes vary, merged over processes and hosts."""
