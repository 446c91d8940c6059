"""What texts say in words and figures, in English and Chinese: names, quantities, strips, polarity, phrases. Pure."""
