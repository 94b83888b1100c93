"""Second statements of the methods, written from the papers alone, to hold the first ones against."""
