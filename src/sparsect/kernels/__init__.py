"""How does one hot loop run fast on this device? One function, several engines, the same result."""
