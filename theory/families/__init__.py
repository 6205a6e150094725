"""Instance families for lower bounds, each with a closed form where one exists, and random ones to measure on."""
